// SPDX-License-Identifier: MIT
// Shared by the networks for images. It is compiled into each of these plugins and is not a plugin itself.
#pragma once

#include <ddprun/batch.h>

#include <torch/nn/modules/conv.h>

#include <string_view>

namespace ddprun {

// Throws UserError unless the data are images [channels, height, width] of at least smallest x smallest, with classes.
void require_images(const DataSpec& data, std::string_view model, int64_t smallest);

// Makes a convolution without bias, with zero padding that keeps the size at stride 1 (the kernel is odd), and with
// He's normal initialization by the number of outputs, as in residual networks.
torch::nn::Conv2d he_convolution(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride = 1,
                                 int64_t groups = 1);

// Averages each channel: [B, C, H, W] to [B, C].
at::Tensor global_average(const at::Tensor& input);

}  // namespace ddprun
