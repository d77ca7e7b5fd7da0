// SPDX-License-Identifier: MIT
#include "players.h"

#include <ddprun/dropout.h>

#include <ATen/ops/conv2d.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

#include <numeric>

namespace ddprun::gan {
namespace {

constexpr int64_t kKernel = 4, kStride = 2, kPadding = 1;  // halves or doubles the sides
constexpr double kLeak = 0.2;

torch::nn::Conv2d halving(int64_t inputs, int64_t outputs) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, kKernel).stride(kStride).padding(kPadding));
}

torch::nn::ConvTranspose2d doubling(int64_t inputs, int64_t outputs) {
  return torch::nn::ConvTranspose2d(
      torch::nn::ConvTranspose2dOptions(inputs, outputs, kKernel).stride(kStride).padding(kPadding));
}

torch::nn::GroupNorm normalised(int64_t channels) {
  return torch::nn::GroupNorm(torch::nn::GroupNormOptions(std::gcd(channels, int64_t{8}), channels));
}

}  // namespace

Generator::Generator(at::IntArrayRef image, int64_t noise, int64_t width, double low, double high)
    : seed_{2 * width, image[1] / 4, image[2] / 4}, middle_((high + low) / 2), reach_((high - low) / 2) {
  fc_ = register_module("fc", torch::nn::Linear(noise, seed_[0] * seed_[1] * seed_[2]));
  norm1_ = register_module("norm1", normalised(seed_[0]));
  up1_ = register_module("up1", doubling(2 * width, width));
  norm2_ = register_module("norm2", normalised(width));
  up2_ = register_module("up2", doubling(width, image[0]));
}

at::Tensor Generator::forward(const at::Tensor& noise) {
  auto x = at::relu(norm1_(fc_(noise).view({-1, seed_[0], seed_[1], seed_[2]})));
  x = at::relu(norm2_(up1_(x)));
  return middle_ + reach_ * at::tanh(up2_(x));
}

Discriminator::Discriminator(at::IntArrayRef image, int64_t width, double dropout) : dropout_(dropout) {
  conv1_ = register_module("conv1", halving(image[0], width));
  conv2_ = register_module("conv2", halving(width, 2 * width));
  fc_ = register_module("fc", torch::nn::Linear(2 * width * (image[1] / 4) * (image[2] / 4), 1));
}

at::Tensor Discriminator::forward(const at::Tensor& images, Weights weights) {
  const auto of = [&](const at::Tensor& own) { return weights == Weights::kDetached ? own.detach() : own; };
  const auto convolved = [&](const torch::nn::Conv2d& layer, const at::Tensor& x) {
    const auto sums = at::conv2d(x, of(layer->weight), of(layer->bias), kStride, kPadding);
    return ddprun::dropout(at::leaky_relu(sums, kLeak), dropout_, is_training());
  };
  const auto x = convolved(conv2_, convolved(conv1_, images));
  return at::linear(x.flatten(1), of(fc_->weight), of(fc_->bias)).squeeze(1);
}

}  // namespace ddprun::gan
