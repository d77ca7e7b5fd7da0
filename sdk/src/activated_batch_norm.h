// SPDX-License-Identifier: MIT
// BatchNorm and ReLU of images on a GPU, in two passes over them forward and two backward, where the GPU backend has
// kernels for them: in half precision, whose time is that of the memory.
#pragma once

#include "pooled_batch_norm.h"

namespace ddprun {

bool can_activate_in_one_pass(const at::Tensor& input, const NormState& state);

// Normalizes with the batch's statistics and updates the running ones. The weight must be defined.
at::Tensor activated_batch_norm(const at::Tensor& input, const NormState& state);

}  // namespace ddprun
