// SPDX-License-Identifier: MIT
// Numbers that a device computes, on their way to the host. Nothing waits for a GPU until somebody asks, and then only
// for the work up to them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>
#include <span>

namespace ddprun {

class DeviceNumbers {
 public:
  explicit DeviceNumbers(const at::Tensor& numbers);  // float32, of any shape

  std::span<const float> get();  // as long as this object lives
  bool all_finite();

 private:
  at::Tensor host_;
  std::optional<c10::Event> arrived_;  // on GPUs: host_ can be read
};

}  // namespace ddprun
