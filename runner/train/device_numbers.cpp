// SPDX-License-Identifier: MIT
#include "train/device_numbers.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>

namespace ddprun {

DeviceNumbers::DeviceNumbers(const at::Tensor& numbers)
    : host_(at::empty(numbers.sizes(), at::TensorOptions().dtype(at::kFloat).pinned_memory(numbers.is_cuda()))) {
  host_.copy_(numbers, /*non_blocking=*/true);
  if (!numbers.is_cuda()) return;
  const auto device = numbers.device();
  arrived_.emplace(device.type());
  arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

std::span<const float> DeviceNumbers::get() {
  if (arrived_) arrived_->synchronize();
  return {host_.const_data_ptr<float>(), static_cast<size_t>(host_.numel())};
}

bool DeviceNumbers::all_finite() {
  return std::ranges::all_of(get(), [](float number) { return std::isfinite(number); });
}

}  // namespace ddprun
