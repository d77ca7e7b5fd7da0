// SPDX-License-Identifier: MIT
// Pooling as image networks mostly use it. Threads: any.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

namespace ddprun {

// at::max_pool2d(input, 2).relu(), [B, C, H, W] to [B, C, H / 2, W / 2], gradients too: the largest of each 2 x 2
// values, the first of equals, cut at 0. Pooling before the ReLU gives what pooling after it gives. On a CPU, float32
// and bfloat16 images in channels_last take one pass over memory forward and one backward; all others take LibTorch's
// operations. After BatchNorm: BatchNorm::pool_relu().
DDPRUN_API at::Tensor max_pool_relu(const at::Tensor& input);

}  // namespace ddprun
