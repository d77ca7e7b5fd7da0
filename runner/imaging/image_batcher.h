// SPDX-License-Identifier: MIT
// Makes batches from images in memory as bytes in one pass: gather, crop, flip, cutout, normalize; then erases. The
// result is bit for bit that of the dataset's get() and augment().
#pragma once

#include "imaging/image_place.h"

#include <ddprun/dataset.h>

#include <array>
#include <cstdint>
#include <memory>

namespace ddprun {

// Memory format and type of the inputs.
struct ImageForm {
  bool channels_last = false;
  bool bf16 = false;  // otherwise float32
};

class ImageBatcher {
 public:
  virtual ~ImageBatcher() = default;

  virtual c10::Device device() const = 0;

  // Returns the images with these numbers ([B] int64 on the CPU) on the device: input [B, C, H, W], target [B], index
  // as given. A key makes it augment them, as in training. Call from any thread for the CPU, from the training thread
  // for a GPU.
  virtual Batch make(const at::Tensor& numbers, const AugmentKey* key) const = 0;

  // Both are of a GPU's, for a batch that is made within a step, and again by each replay of it. The request of a batch
  // is [1 + B] int64 in page-locked memory: the key's epoch (0 without a key) and the numbers. From a copy of it on the
  // device, make_of() makes the batch, without an index and without a word from the host. The key gives all but the
  // epoch.
  virtual at::Tensor request(const at::Tensor& numbers, const AugmentKey* key) const;
  virtual Batch make_of(const at::Tensor& request, const AugmentKey* key) const;

  // Returns whether a batch can be made so: with this key nothing is left to the host, as erasing is.
  virtual bool makes_of_requests(const AugmentKey* /*key*/) const { return false; }
};

using SplitImages = std::array<std::shared_ptr<const ImageBatcher>, 3>;  // by Split; null if a split has no bytes

// Returns the rules for the images of one epoch, or none without a key. Throws UserError if the augmentation does not
// fit the images.
ImageRules image_rules(const ImageSource& source, const AugmentKey* key);

// Makes one for the CPU. What the source points to must outlive it.
std::unique_ptr<ImageBatcher> make_image_batcher(const ImageSource& source, const ImageForm& form);

// Returns the bytes that images, labels and tables need on a device.
int64_t image_bytes(const ImageSource& source);

}  // namespace ddprun
