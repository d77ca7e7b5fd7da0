// SPDX-License-Identifier: MIT
// BatchNorm, pooling and ReLU in two passes over the images forward and two backward (pooling_loops.h).
//
// Scaling by a positive number keeps the order of values and scaling by a negative one reverses it. So pooling can
// happen before normalizing, in the pass that the statistics need, and only a quarter of the values is normalized.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun {

// Tensors are float32 [C]; weight and bias may be undefined, meaning 1 and 0.
struct NormState {
  at::Tensor weight, bias, running_mean, running_var;
  double eps = 0, momentum = 0;
};

bool can_norm_in_one_pass(const at::Tensor& input, const NormState& state);

// In training, normalizes with the batch's statistics and updates the running ones; otherwise normalizes with the
// running ones, and the gradients are those of fixed statistics.
at::Tensor pooled_batch_norm(const at::Tensor& input, const NormState& state, bool training);

}  // namespace ddprun
