// SPDX-License-Identifier: MIT
#include "resize.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddprun::images {
namespace {

// Returns the middle of a dimension; both ends lose the same amount.
at::Tensor middle(const at::Tensor& image, int64_t dim, int64_t most) {
  const int64_t margin = std::max<int64_t>(0, (image.size(dim) - most) / 2);
  return image.narrow(dim, margin, image.size(dim) - 2 * margin);
}

at::Tensor cropped(const at::Tensor& image, int64_t dim, int64_t crop) {
  const auto margin = static_cast<int64_t>(std::nearbyint(static_cast<double>(image.size(dim) - crop) / 2));
  return image.narrow(dim, margin, crop);
}

// Returns [1, channels, height, width], which lives as long as the pixels.
at::Tensor as_tensor(const Pixels& pixels) {
  auto* bytes = const_cast<uint8_t*>(pixels.bytes.data());  // from_blob takes no const; nothing writes to it
  const std::vector<int64_t> shape{1, pixels.size.height, pixels.size.width, pixels.channels};
  return at::from_blob(bytes, shape, at::kByte).permute({0, 3, 1, 2});
}

}  // namespace

at::Tensor resized_square(const Pixels& pixels, int64_t side, int64_t crop) {
  const auto [height, width] = pixels.size;
  auto image = as_tensor(pixels);
  const int64_t shorter = std::min(height, width);
  image = middle(middle(image, 2, 3 * shorter), 3, 3 * shorter);
  const auto scaled = [&](int64_t length) { return std::max(side, side * length / shorter); };
  if (shorter != side) {
    image = at::_upsample_bilinear2d_aa(image, {scaled(image.size(2)), scaled(image.size(3))}, /*align_corners=*/false);
  }
  image = cropped(cropped(image, 2, crop), 3, crop).squeeze(0);
  return shorter == side ? image.clone() : image;
}

at::Tensor resized(const Pixels& pixels, int64_t side) {
  return at::_upsample_bilinear2d_aa(as_tensor(pixels), {side, side}, /*align_corners=*/false).squeeze(0);
}

}  // namespace ddprun::images
