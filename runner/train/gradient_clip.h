// SPDX-License-Identifier: MIT
// Limits gradients in place, without waiting for a GPU (torch::nn::utils::clip_grad_norm_ reads the norm on the host).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun {

// The norm of all gradients together, float32 scalar on their device; 0 where there are none.
at::Tensor gradient_norm(const std::vector<at::Tensor>& gradients);

// Scales all gradients so that their norm, over all of them together, is at most `limit`. Returns the norm before, float32
// scalar on the device.
at::Tensor clip_norm(const std::vector<at::Tensor>& gradients, double limit);

// Cuts each gradient to [-limit, limit].
void clip_value(const std::vector<at::Tensor>& gradients, double limit);

}  // namespace ddprun
