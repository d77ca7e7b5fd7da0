// SPDX-License-Identifier: MIT
// Pooling of 2 x 2 values, alone and with the BatchNorm before it, over images that lie in channels_last on the CPU.
//
// Images are [B, C, H, W], pooled ones and their gradients [B, C, H / 2, W / 2], all in channels_last. A leftover row
// or column is not pooled, but counts in sums. A place (uint8) says which of the 2 x 2 was taken, 0 to 3 row by row,
// plus 4 if the ReLU cut it off. Runs on LibTorch's threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// Gradients come in any memory order (channels_first from a layer that flattens): brings them into that of the loops.
at::Tensor in_channels_last(const at::Tensor& gradients);

using Channels = std::vector<float>;  // one number per channel

// Returns true if the loops can work on these images.
bool can_pool_in_one_pass(const at::Tensor& images);

struct Pooled {
  at::Tensor values, places;
};

// Takes the largest value; the smallest in channels whose direction is -1, the first where it is 0. Nothing is cut.
Pooled pool(const at::Tensor& images, const Channels& direction);

// Computes values * scale + shift, cut at 0; the places note what was cut.
at::Tensor scale_and_cut(const Pooled& pooled, const Channels& scale, const Channels& shift);

// Returns the gradients of images of these sizes: the given ones at the places that were taken and not cut, 0
// elsewhere.
at::Tensor spread(const at::Tensor& gradients, const at::Tensor& places, at::IntArrayRef sizes);

// Sums over all images, per channel.
struct ChannelSums {
  std::vector<double> first, second;
};

// Sums (value - origin) and its square.
ChannelSums channel_sums(const at::Tensor& images, const Channels& origin);

// Sums the gradients of what was not cut, and these times (value - mean).
ChannelSums gradient_sums(const at::Tensor& gradients, const Pooled& pooled, const at::Tensor& images,
                          const Channels& mean);

// Computes factor * spread(gradients) + slope * (image - mean) + constant.
struct NormGradient {
  Channels factor, slope, mean, constant;
};
at::Tensor spread_through_norm(const at::Tensor& gradients, const at::Tensor& places, const at::Tensor& images,
                               const NormGradient& norm);

}  // namespace ddprun
