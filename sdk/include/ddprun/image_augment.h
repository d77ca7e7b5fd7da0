// SPDX-License-Identifier: MIT
// Random changes to a whole batch of training images, on the device they are on.
//
//   explicit MyImages(Options& options) { augmentation_.read(options); }
//   void augment(Batch& batch, const AugmentKey& key) const override {
//     batch.input = augmentation_.apply(batch.input, batch.index, key, black_);
//   }
//
// What happens to a sample depends only on (seed, epoch, its number), not on its batch or on the number of ranks.
#pragma once

#include <ddprun/api.h>
#include <ddprun/dataset.h>
#include <ddprun/options.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// Crops randomly out of the padded image, then mirrors half of the images, then cuts out a square. The defaults change
// nothing. Alternating flips are Jordan's ("94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024): two epochs show
// both sides.
struct DDPRUN_API ImageAugmentation {
  int64_t crop_padding = 0;      // pixels added at each side before cropping back to the old size; 0: no crop
  bool crop_reflect = false;     // pad with the image mirrored at its edge; otherwise with black
  bool flip = false;             // swap left and right, with probability 1/2
  bool flip_alternates = false;  // needs flip: draw for the first epoch only, and swap again in each later one
  int64_t cutout = 0;            // side of a square around a random pixel that is set to the mean colour, 0; 0: none

  // Declares and reads the options crop_padding, crop_mode, flip, flip_mode and cutout. The present values are their
  // defaults.
  void read(Options& options);

  // Throws UserError if the padding mirrors more than an image of this shape, {C, H, W}, has.
  void check(at::IntArrayRef shape) const;

  // Returns the changed images. Takes [B, C, H, W] normalized images and their sample numbers, `index` ([B] int64, on
  // the CPU). Costs one small copy to the device and no synchronization. `black` is the normalized value of a black
  // pixel, per channel: padding with it afterwards equals padding with black before. Throws as check() does.
  at::Tensor apply(const at::Tensor& images, const at::Tensor& index, const AugmentKey& key,
                   const std::vector<double>& black) const;

 private:
  at::Tensor mirrors(const at::Tensor& draws, const at::Tensor& index, const AugmentKey& key) const;
};

}  // namespace ddprun
