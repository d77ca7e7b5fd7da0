// SPDX-License-Identifier: MIT
// Random changes to training images: to a whole batch, on the device it is on, and to the bytes of each picture before.
//
//   explicit MyImages(Options& options) { augmentation_.read(options); }
//   void augment(Batch& batch, const AugmentKey& key) const override {
//     batch.input = augmentation_.apply(batch.input, batch.index, key, black_);
//   }
//
// A dataset that takes the changes of bytes, too, calls change_pixels() in Dataset::draw(), and lends no images() while
// changes_pixels().
//
// What happens to a sample depends only on (seed, epoch, its number), not on its batch or on the number of ranks.
#pragma once

#include <ddprun/api.h>
#include <ddprun/dataset.h>
#include <ddprun/options.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace ddprun {

// Turns pixels, changes their colours and applies TrivialAugment to each picture; crops randomly out of the padded
// image, then mirrors half of the images, then cuts out a square, then a rectangle. The defaults change nothing.
//
// Rotation, colours, TrivialAugment (Mueller, Hutter: "TrivialAugment: Tuning-free Yet State-of-the-Art Data
// Augmentation", 2021) and erasing (Zhong et al.: "Random Erasing Data Augmentation", 2017) draw from the distributions
// of torchvision's RandomRotation, ColorJitter, TrivialAugmentWide and RandomErasing. Alternating flips are Jordan's
// ("94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024): two epochs show both sides.
struct DDPRUN_API ImageAugmentation {
  // What is done to the bytes of a picture.
  double rotation = 0;  // the most degrees, to either side; bilinear, and black beyond the picture
  // The most that brightness, contrast and saturation are multiplied by beyond 1, or less; and that the hue is moved.
  std::array<double, 4> color_jitter{};
  bool trivial_augment = false;  // one of 14 changes, bilinear

  // What is done to a batch.
  int64_t crop_padding = 0;      // pixels added at each side before cropping back to the old size; 0: no crop
  bool crop_reflect = false;     // pad with the image mirrored at its edge; otherwise with black
  bool flip = false;             // swap left and right, with probability 1/2
  bool flip_alternates = false;  // needs flip: draw for the first epoch only, and swap again in each later one
  int64_t cutout = 0;            // side of a square around a random pixel that is set to the mean colour, 0; 0: none
  double erasing = 0;            // share of the images that lose a rectangle of random size, set to the mean colour, 0

  // Declares and reads the options crop_padding, crop_mode, flip, flip_mode, cutout and erasing, and of a dataset that
  // calls change_pixels() rotation, color_jitter and trivial_augment. The present values are their defaults.
  void read(Options& options);
  void read_pixel_changes(Options& options);

  // Returns whether change_pixels() does anything.
  bool changes_pixels() const;

  // Returns what becomes of a picture, [C, H, W] uint8 with 1 or 3 channels, on the CPU, that has this sample number:
  // it is turned, its colours change, then TrivialAugment. Call from any thread.
  at::Tensor change_pixels(const at::Tensor& picture, int64_t sample, const AugmentKey& key) const;

  // Returns whether apply() mirrors this sample, for a dataset that does it itself.
  bool mirrors(int64_t sample, const AugmentKey& key) const;

  // Erases from [B, C, H, W] images in place, as apply() does.
  void erase(at::Tensor& images, const at::Tensor& index, const AugmentKey& key) const;

  // Throws UserError if the padding mirrors more than an image of this shape, {C, H, W}, has.
  void check(at::IntArrayRef shape) const;

  // Returns the changed images. Takes [B, C, H, W] normalized images and their sample numbers, `index` ([B] int64, on
  // the CPU). Costs one small copy to the device and no synchronization. `black` is the normalized value of a black
  // pixel, per channel: padding with it afterwards equals padding with black before. Throws as check() does.
  at::Tensor apply(const at::Tensor& images, const at::Tensor& index, const AugmentKey& key,
                   const std::vector<double>& black) const;

 private:
  at::Tensor mirrored(const at::Tensor& draws, const at::Tensor& index, const AugmentKey& key) const;
};

}  // namespace ddprun
