// SPDX-License-Identifier: MIT
// The two networks of a generative adversarial model for images of [C, H, W], with H and W divisible by four. They use
// strided convolutions instead of pooling, as DCGAN does (Radford, Metz, Chintala, 2015), but no batch normalization:
// its statistics would tie a batch's real and generated samples to each other, and to how they are dealt out to ranks.
// Group normalization looks at one sample.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <vector>

namespace ddprun::gan {

// Maps noise to an image.
class Generator final : public torch::nn::Module {
 public:
  // `low` and `high` are the darkest and the lightest pixel that it can paint.
  Generator(at::IntArrayRef image, int64_t noise, int64_t width, double low, double high);

  at::Tensor forward(const at::Tensor& noise);  // [B, noise] to [B, C, H, W]

 private:
  const std::vector<int64_t> seed_;  // shape of its first activation, [channels, H / 4, W / 4]
  const double middle_, reach_;
  torch::nn::Linear fc_{nullptr};
  torch::nn::ConvTranspose2d up1_{nullptr}, up2_{nullptr};
  torch::nn::GroupNorm norm1_{nullptr}, norm2_{nullptr};
};

// Maps an image to a logit, above 0 if it is taken for a real one.
class Discriminator final : public torch::nn::Module {
 public:
  enum class Weights { kTrained, kDetached };  // kDetached: the gradient reaches the images, but not the weights

  Discriminator(at::IntArrayRef image, int64_t width, double dropout);

  at::Tensor forward(const at::Tensor& images, Weights weights);  // [B, C, H, W] to [B]

 private:
  const double dropout_;
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace ddprun::gan
