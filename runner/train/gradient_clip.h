// SPDX-License-Identifier: MIT
// Limits gradients in place, without waiting for a GPU (torch::nn::utils::clip_grad_norm_ reads the norm on the host).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun {

// The norm of each tensor, float32 scalars on its device; one operator for all.
std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& tensors);

// The norm of all tensors together, from norms_of() them: float32 scalar on their device; 0 where there are none.
at::Tensor total_norm(const std::vector<at::Tensor>& norms);

// Scales all gradients so that their norm, over all of them together, is at most `limit`; `norm` is total_norm() of
// theirs.
void clip_norm(const std::vector<at::Tensor>& gradients, const at::Tensor& norm, double limit);

// Cuts each gradient to [-limit, limit].
void clip_value(const std::vector<at::Tensor>& gradients, double limit);

}  // namespace ddprun
