// SPDX-License-Identifier: MIT
// A yes or no that a device computes, on its way to the host. Nothing waits for a GPU until somebody asks, and then only for the
// work up to the flag.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace ddprun {

class LateFlag {
 public:
  explicit LateFlag(const at::Tensor& flag);  // float32 scalar: 0, or not

  bool raised();

 private:
  at::Tensor host_;
  std::optional<c10::Event> arrived_;  // on GPUs: host_ can be read
};

}  // namespace ddprun
