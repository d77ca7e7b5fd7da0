// SPDX-License-Identifier: MIT
// The network of Keras' guides to training on several GPUs, with Keras' defaults: Glorot's uniform initialization,
// BatchNorm with epsilon 0.001 and momentum 0.99 (0.01 in torch's convention). Modules have Keras' layer names. Two
// things follow torch: the layout of weights, and the running variance, which has Bessel's correction.
#include "../images/image_network.h"

#include <ddprun/batch_norm.h>
#include <ddprun/dropout.h>
#include <ddprun/model.h>

#include <ATen/ops/constant_pad_nd.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

namespace {

constexpr int64_t kLargeKernel = 6, kStride = 2;

template <class Layer>
Layer glorot(Layer layer) {
  torch::nn::init::xavier_uniform_(layer->weight);
  if (layer->bias.defined()) torch::nn::init::zeros_(layer->bias);
  return layer;
}

torch::nn::Conv2dOptions convolution(int64_t inputs, int64_t outputs, int64_t kernel) {
  return torch::nn::Conv2dOptions(inputs, outputs, kernel);
}

ddprun::BatchNorm unscaled_norm(int64_t channels) {
  return ddprun::BatchNorm(
      ddprun::BatchNormOptions{.channels = channels, .eps = 1e-3, .momentum = 0.01, .scale = false});
}

// Returns the zeros before and after one dimension for `padding="same"`: the output has ceil(size / stride) values, and
// the larger half of an odd number of zeros comes after.
std::pair<int64_t, int64_t> same_padding(int64_t size, int64_t kernel, int64_t stride) {
  const auto outputs = (size + stride - 1) / stride;
  const auto zeros = std::max((outputs - 1) * stride + kernel - size, int64_t{0});
  return {zeros / 2, zeros - zeros / 2};
}

at::Tensor padded(const at::Tensor& input, int64_t kernel, int64_t stride) {
  const auto [top, bottom] = same_padding(input.size(2), kernel, stride);
  const auto [left, right] = same_padding(input.size(3), kernel, stride);
  return at::constant_pad_nd(input, {left, right, top, bottom});
}

class KerasConvNet final : public ddprun::Model {
 public:
  explicit KerasConvNet(ddprun::Options& options)
      : dropout_(options.get<double>("dropout", 0.5, "probability of dropping a hidden unit before the last layer",
                                     {.min = 0, .max = 1})) {}

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "keras_convnet", kLargeKernel);
    conv1_ = register_module(
        "conv2d", glorot(torch::nn::Conv2d(convolution(data.sample_shape[0], 12, 3).padding(1).bias(false))));
    norm1_ = register_module("batch_normalization", unscaled_norm(12));
    conv2_ = register_module("conv2d_1",
                             glorot(torch::nn::Conv2d(convolution(12, 24, kLargeKernel).stride(kStride).bias(false))));
    norm2_ = register_module("batch_normalization_1", unscaled_norm(24));
    large_k_ = register_module("large_k", glorot(torch::nn::Conv2d(convolution(24, 32, kLargeKernel).stride(kStride))));
    norm3_ = register_module("batch_normalization_2", unscaled_norm(32));
    dense_ = register_module("dense", glorot(torch::nn::Linear(32, 256)));
    output_ = register_module("dense_1", glorot(torch::nn::Linear(256, data.classes)));
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto x = norm1_->relu(conv1_(input));
    x = norm2_->relu(conv2_(x));
    x = norm3_->relu(large_k_(padded(x, kLargeKernel, kStride)));
    x = dense_(ddprun::global_average(x)).relu_();
    return output_(ddprun::dropout(x, dropout_, is_training()));  // [B, classes]
  }

 private:
  const double dropout_;
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, large_k_{nullptr};
  ddprun::BatchNorm norm1_{nullptr}, norm2_{nullptr}, norm3_{nullptr};
  torch::nn::Linear dense_{nullptr}, output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(KerasConvNet, "keras_convnet", "the convolutional network of Keras' guides to training on several GPUs")
