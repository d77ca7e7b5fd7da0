// SPDX-License-Identifier: MIT
// Batches of a split whose images lie in memory as bytes, made in one pass: gathered, cropped, mirrored, cut out,
// normalised. The same bits as the dataset's get() and augment().
#pragma once

#include "imaging/image_place.h"

#include <ddprun/dataset.h>

#include <array>
#include <cstdint>
#include <memory>

namespace ddprun {

// How the numbers of an input lie, and what they are.
struct ImageForm {
  bool channels_last = false;
  bool bf16 = false;  // else float32
};

class ImageBatcher {
 public:
  virtual ~ImageBatcher() = default;

  virtual c10::Device device() const = 0;

  // The images with these numbers ([B] int64 on the CPU) on the device: input [B, C, H, W], target [B]; index as given.
  // With a key they are augmented, as in training. Threads: any on the CPU, the training thread on a GPU.
  virtual Batch make(const at::Tensor& numbers, const AugmentKey* key) const = 0;
};

using SplitImages = std::array<std::shared_ptr<const ImageBatcher>, 3>;  // by Split; null where a split has no bytes

// Rules for the images of one epoch; none without a key. Throws UserError where the augmentation does not fit the
// images.
ImageRules image_rules(const ImageSource& source, const AugmentKey* key);

// On the CPU. What the source names outlives it.
std::unique_ptr<ImageBatcher> make_image_batcher(const ImageSource& source, const ImageForm& form);

// What the images, their labels and tables take on a device.
int64_t image_bytes(const ImageSource& source);

}  // namespace ddprun
