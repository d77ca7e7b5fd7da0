// SPDX-License-Identifier: MIT
// Dropout with cheap random numbers on CPUs. Safe to call from any thread.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

namespace ddprun {

// Computes at::dropout(input, p, training): in training, sets each value to 0 with probability p, in [0, 1], and
// divides the others by 1 - p; otherwise returns the input itself. On a CPU, a float32 or bfloat16 tensor draws one
// number from LibTorch's generator as a Philox key, and each value uses 16 bits (p is rounded to 1/65536, and the
// divisor with it); backward draws them again instead of keeping a mask. Other tensors use LibTorch's operation.
DDPRUN_API at::Tensor dropout(const at::Tensor& input, double p, bool training);

}  // namespace ddprun
