// SPDX-License-Identifier: MIT
#include "weights/precision.h"

#include <ddprun/parameters.h>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <algorithm>

namespace ddprun {
namespace {

std::optional<c10::ScalarType> autocast_type(PrecisionMode precision) {
  if (precision == PrecisionMode::kBf16) return c10::kBFloat16;
  if (precision == PrecisionMode::kFp16) return c10::kHalf;
  return std::nullopt;
}

}  // namespace

AutocastScope::AutocastScope(c10::DeviceType device, std::optional<c10::ScalarType> type)
    : device_(device), active_(type.has_value()) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  former_type_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_dtype(device_, *type);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, former_type_);
}

Precision::Precision(const TrainerConfig& config, c10::DeviceType device)
    : device_(device), autocast_(autocast_type(config.precision)), bf16_weights_(has_bf16_weights(config.precision)) {}

void Precision::convert(Model& model) const {
  if (bf16_weights_) cast_floating_point(model, at::kBFloat16);
  const torch::NoGradGuard no_gradients;
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(in_memory_format(parameter, memory_format_));
  }
}

Batch Precision::converted(Batch batch) const {
  const auto formed = [&](at::Tensor tensor) {
    if (bf16_weights_ && tensor.is_floating_point()) tensor = tensor.to(at::kBFloat16);
    return tensor.dim() == 4 ? in_memory_format(tensor, memory_format_) : tensor;
  };
  batch.input = formed(batch.input);
  for (auto& [name, extra] : batch.extras) extra = formed(extra);
  return batch;
}

// A GPU's tensor cores take images in channels last as they are; it computes exact float32 elsewhere.
MemoryFormat suitable_memory_format(const Model& model, const DataSpec& data, PrecisionMode precision,
                                    c10::DeviceType device) {
  const auto is_filter = [](const at::Tensor& parameter) { return parameter.dim() == 4; };
  const bool of_images = data.sample_shape.size() == 3 && std::ranges::any_of(model.parameters(), is_filter);
  const bool suits = device == at::kCPU || precision != PrecisionMode::kFp32Exact;
  return of_images && suits ? MemoryFormat::kChannelsLast : MemoryFormat::kChannelsFirst;
}

void set_product_precision(const TrainerConfig& config) {
  auto& context = at::globalContext();
  context.setAllowTF32CuDNN(config.precision != PrecisionMode::kFp32Exact);
  context.setFloat32MatmulPrecision(config.precision == PrecisionMode::kTf32 ? "high" : "highest");
}

namespace {

std::vector<int64_t> strides_of(at::IntArrayRef sizes, MemoryFormat memory_format) {
  const auto [channels, height, width] = std::tuple(sizes[1], sizes[2], sizes[3]);
  const auto image = channels * height * width;
  if (memory_format == MemoryFormat::kChannelsFirst) return {image, height * width, width, 1};
  return {image, 1, width * channels, channels};
}

}  // namespace

at::Tensor in_memory_format(const at::Tensor& tensor, MemoryFormat memory_format) {
  const auto strides = strides_of(tensor.sizes(), memory_format);
  if (tensor.strides() == at::IntArrayRef(strides)) return tensor;
  if (tensor.size(1) == 1 && tensor.is_contiguous()) return tensor.as_strided(tensor.sizes(), strides);
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

}  // namespace ddprun
