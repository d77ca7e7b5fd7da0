// SPDX-License-Identifier: MIT
// What networks for images have in common. Compiled into each of these plugins; no plugin itself.
#pragma once

#include <ddprun/batch.h>

#include <torch/nn/modules/conv.h>

#include <string_view>

namespace ddprun {

// Throws UserError unless the data are images [channels, height, width] of at least smallest x smallest, in classes.
void require_images(const DataSpec& data, std::string_view model, int64_t smallest);

// Without a bias, with zero padding that keeps the size at stride 1 (the kernel is odd), and He's normal initialisation
// by the number of outputs, as residual networks have it.
torch::nn::Conv2d he_convolution(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride = 1);

// The mean of each channel: [B, C, H, W] to [B, C].
at::Tensor global_average(const at::Tensor& input);

}  // namespace ddprun
