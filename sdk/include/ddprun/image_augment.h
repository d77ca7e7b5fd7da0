// SPDX-License-Identifier: MIT
// Random changes to a batch of training images, all at once on the device they lie on.
//
//   explicit MyImages(Options& options) { augmentation_.read(options); }
//   void augment(Batch& batch, const AugmentKey& key) const override {
//     batch.input = augmentation_.apply(batch.input, batch.index, key, black_);
//   }
//
// What happens to a sample depends on (seed, epoch, its number) alone: not on its batch, and not on how many ranks
// there are.
#pragma once

#include <ddprun/api.h>
#include <ddprun/dataset.h>
#include <ddprun/options.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// A random crop out of the padded image, then a mirror image in half of the cases, then a square cut out. The defaults
// change nothing. Alternating flips are Jordan's ("94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024): two epochs
// show both sides.
struct DDPRUN_API ImageAugmentation {
  int64_t crop_padding = 0;      // pixels added at each side before an image of the old size is cropped; 0: no crop
  bool crop_reflect = false;     // pad with the image mirrored at its edge; else with black
  bool flip = false;             // left and right swapped, with a chance of 1/2
  bool flip_alternates = false;  // drawn for the first epoch alone, and the other way round in each next one: with flip
  int64_t cutout = 0;            // side of a square around a random pixel that becomes the mean colour, 0; 0: none

  // Declares and reads the options crop_padding, crop_mode, flip, flip_mode and cutout; the present values are their
  // defaults.
  void read(Options& options);

  // Throws UserError where the padding mirrors more than an image of this shape, {C, H, W}, has.
  void check(at::IntArrayRef shape) const;

  // [B, C, H, W] normalized images, those of the samples `index` ([B] int64, on the CPU), changed. Costs one small copy
  // to the device and no synchronization. `black` is what a black pixel becomes by normalization, for each channel:
  // padding with it afterwards equals padding with black before. Throws as check().
  at::Tensor apply(const at::Tensor& images, const at::Tensor& index, const AugmentKey& key,
                   const std::vector<double>& black) const;

 private:
  at::Tensor mirrors(const at::Tensor& draws, const at::Tensor& index, const AugmentKey& key) const;
};

}  // namespace ddprun
