// SPDX-License-Identifier: MIT
#include "train/layout.h"

#include <ATen/ATen.h>

namespace ddprun {
namespace {

std::vector<int64_t> strides_of(at::IntArrayRef sizes, Layout layout) {
  const auto [channels, height, width] = std::tuple(sizes[1], sizes[2], sizes[3]);
  const auto image = channels * height * width;
  if (layout == Layout::kChannelsFirst) return {image, height * width, width, 1};
  return {image, 1, width * channels, channels};
}

}  // namespace

const char* layout_name(Layout layout) { return layout == Layout::kChannelsLast ? "channels_last" : "channels_first"; }

Layout layout_of_name(const std::string& name) {
  return name == "channels_last" ? Layout::kChannelsLast : Layout::kChannelsFirst;
}

at::Tensor in_layout(const at::Tensor& tensor, Layout layout) {
  const auto strides = strides_of(tensor.sizes(), layout);
  if (tensor.strides() == at::IntArrayRef(strides)) return tensor;
  if (tensor.size(1) == 1 && tensor.is_contiguous()) return tensor.as_strided(tensor.sizes(), strides);
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

}  // namespace ddprun
