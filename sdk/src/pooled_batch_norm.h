// SPDX-License-Identifier: MIT
// BatchNorm, pooling and ReLU in two passes over the images forward and two backward (pooling_loops.h).
//
// Scaling by a positive number keeps the order of values and by a negative one turns it round: what is pooled is found
// before it is normalised, in the pass that the statistics need, and a quarter of the values is normalised.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun {

// float32 of [C]; weight and bias may be undefined: 1 and 0.
struct NormState {
  at::Tensor weight, bias, running_mean, running_var;
  double eps = 0, momentum = 0;
};

bool can_norm_in_one_pass(const at::Tensor& input, const NormState& state);

// In training the batch's statistics normalise, and the running ones take them in; else the running ones do, and
// gradients are those of fixed statistics.
at::Tensor pooled_batch_norm(const at::Tensor& input, const NormState& state, bool training);

}  // namespace ddprun
