// SPDX-License-Identifier: MIT
// Dropout whose random numbers cost little on a CPU. Threads: any.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

namespace ddprun {

// at::dropout(input, p, training): in training each value is 0 with chance p, in [0, 1], and the others are divided by
// 1 - p; else the input itself. On a CPU a float32 or bfloat16 tensor draws one number from LibTorch's generator; the
// values' own come from Philox under it as key, 16 bits each (p is rounded to a 65536th, the divisor with it), and
// backward draws them again instead of keeping a mask. All others take LibTorch's operation.
DDPRUN_API at::Tensor dropout(const at::Tensor& input, double p, bool training);

}  // namespace ddprun
