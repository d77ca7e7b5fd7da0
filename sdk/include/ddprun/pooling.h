// SPDX-License-Identifier: MIT
// The usual pooling of image networks. Safe to call from any thread.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

namespace ddprun {

// Computes at::max_pool2d(input, 2).relu(), [B, C, H, W] to [B, C, H / 2, W / 2], and the same gradients: of equal
// values the first is taken. (Pooling before the ReLU gives what pooling after it gives.) On a CPU, float32 and
// bfloat16 images in channels_last need one pass over memory forward and one backward; others use LibTorch's
// operations. After a BatchNorm, use BatchNorm::pool_relu().
DDPRUN_API at::Tensor max_pool_relu(const at::Tensor& input);

}  // namespace ddprun
