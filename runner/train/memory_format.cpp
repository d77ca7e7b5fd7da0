// SPDX-License-Identifier: MIT
#include "train/memory_format.h"

#include <ATen/ATen.h>

namespace ddprun {
namespace {

std::vector<int64_t> strides_of(at::IntArrayRef sizes, MemoryFormat memory_format) {
  const auto [channels, height, width] = std::tuple(sizes[1], sizes[2], sizes[3]);
  const auto image = channels * height * width;
  if (memory_format == MemoryFormat::kChannelsFirst) return {image, height * width, width, 1};
  return {image, 1, width * channels, channels};
}

}  // namespace

MemoryFormat memory_format_of(const std::string& word) {
  return word == word_of(MemoryFormat::kChannelsLast) ? MemoryFormat::kChannelsLast : MemoryFormat::kChannelsFirst;
}

at::Tensor in_memory_format(const at::Tensor& tensor, MemoryFormat memory_format) {
  const auto strides = strides_of(tensor.sizes(), memory_format);
  if (tensor.strides() == at::IntArrayRef(strides)) return tensor;
  if (tensor.size(1) == 1 && tensor.is_contiguous()) return tensor.as_strided(tensor.sizes(), strides);
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

}  // namespace ddprun
