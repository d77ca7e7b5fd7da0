// SPDX-License-Identifier: MIT
// Images of random bytes.
#pragma once

#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>
#include <ddprun/random.h>

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace ddprun {

inline ImageStore random_pictures(int64_t count, int64_t channels, int64_t height, int64_t width) {
  const auto size = static_cast<size_t>(count * channels * height * width);
  const auto bytes = std::make_shared<std::vector<uint8_t>>(size);
  RandomStream draws(3, 1);
  for (auto& byte : *bytes) byte = static_cast<uint8_t>(draws.next());
  std::vector<int64_t> labels(static_cast<size_t>(count));
  for (auto& label : labels) label = static_cast<int64_t>(draws.below(10));
  ImageFormat format{.shape = {channels, height, width}, .mean = {0.49}, .std = {0.25}};
  if (channels == 3) format = {.shape = format.shape, .mean = {0.49, 0.48, 0.45}, .std = {0.25, 0.24, 0.26}};
  return {format, {bytes, bytes->data()}, labels};
}

// What datasets make of it: gather(), and then augmentation.
inline Batch expected_batch(const ImageStore& store, const ImageAugmentation& augmentation, const at::Tensor& numbers,
                            const AugmentKey& key) {
  const std::vector<int64_t> wanted(numbers.const_data_ptr<int64_t>(),
                                    numbers.const_data_ptr<int64_t>() + numbers.numel());
  auto batch = store.gather(wanted);
  batch.input = augmentation.apply(batch.input, batch.index, key, store.black());
  return batch;
}

// Every way to change an image, alone and together.
inline std::vector<ImageAugmentation> augmentations() {
  std::vector<ImageAugmentation> all;
  for (const int64_t padding : {0, 3}) {
    for (const bool reflect : {false, true}) {
      for (const int64_t cutout : {0, 5}) {
        for (const bool flip : {false, true}) {
          for (const bool alternates : {false, true}) {
            all.push_back({.crop_padding = padding,
                           .crop_reflect = reflect,
                           .flip = flip,
                           .flip_alternates = alternates,
                           .cutout = cutout});
          }
        }
      }
    }
  }
  all.push_back({.crop_padding = 2, .flip = true, .cutout = 4, .erasing = 0.6});
  all.push_back({.erasing = 1});
  return all;
}

}  // namespace ddprun
