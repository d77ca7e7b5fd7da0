// SPDX-License-Identifier: MIT
// Pooling of 2 x 2 values, alone and with the BatchNorm before it, over images that lie in channels_last on the CPU.
//
// Shapes: images [B, C, H, W], pooled ones and their gradients [B, C, H / 2, W / 2], all in channels_last; a row or
// column that is left over is not pooled, but counts in sums. A place says which of the 2 x 2, row by row, was taken:
// uint8, 0 to 3, and 4 more where the ReLU cut it off. Threads: LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// Gradients come in any order, of a layer that flattens in channels_first: this brings them into that of the loops.
at::Tensor in_channels_last(const at::Tensor& gradients);

using Channels = std::vector<float>;  // a number for each

// Whether the loops can work on these images.
bool can_pool_in_one_pass(const at::Tensor& images);

struct Pooled {
  at::Tensor values, places;
};

// Takes the largest value, in channels whose direction is -1 the smallest, where it is 0 the first; nothing is cut.
Pooled pool(const at::Tensor& images, const Channels& direction);

// values * scale + shift, cut at 0, which the places note.
at::Tensor scale_and_cut(const Pooled& pooled, const Channels& scale, const Channels& shift);

// The gradients of images of these sizes: those of what was taken and not cut at their places, 0 elsewhere.
at::Tensor spread(const at::Tensor& gradients, const at::Tensor& places, at::IntArrayRef sizes);

// Over all images.
struct ChannelSums {
  std::vector<double> first, second;
};

// Of (value - origin), and of its square.
ChannelSums channel_sums(const at::Tensor& images, const Channels& origin);

// Of the gradients of what was not cut, and of these times (value - mean).
ChannelSums gradient_sums(const at::Tensor& gradients, const Pooled& pooled, const at::Tensor& images,
                          const Channels& mean);

// factor * spread(gradients) + slope * (image - mean) + constant.
struct NormGradient {
  Channels factor, slope, mean, constant;
};
at::Tensor spread_through_norm(const at::Tensor& gradients, const at::Tensor& places, const at::Tensor& images,
                               const NormGradient& norm);

}  // namespace ddprun
