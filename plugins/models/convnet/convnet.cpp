// SPDX-License-Identifier: MIT
// The network of the classic MNIST example: two convolutions, one pooling, two linear layers, and dropout before each
// of these. Module names are the example's, so its weights fit.
#include "../images/image_network.h"

#include <ddprun/dropout.h>
#include <ddprun/model.h>
#include <ddprun/pooling.h>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace {

class ConvNet final : public ddprun::Model {
 public:
  explicit ConvNet(ddprun::Options& options)
      : dropout_(options.get<double>("dropout", 0.5,
                                     "probability of dropping a unit before the last layer; half of it after pooling",
                                     {.min = 0, .max = 1})) {}

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "convnet", 6);
    const auto& shape = data.sample_shape;
    const auto pooled = ((shape[1] - 4) / 2) * ((shape[2] - 4) / 2);
    conv1_ = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape[0], 32, 3)));
    conv2_ = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 64, 3)));
    fc1_ = register_module("fc1", torch::nn::Linear(64 * pooled, 128));
    fc2_ = register_module("fc2", torch::nn::Linear(128, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto x = conv1_(input).relu_();
    x = ddprun::dropout(ddprun::max_pool_relu(conv2_(x)), dropout_ / 2, is_training());
    x = fc1_(x.flatten(1)).relu_();
    return fc2_(ddprun::dropout(x, dropout_, is_training()));  // [B, classes]
  }

 private:
  const double dropout_;
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
};

}  // namespace

DDPRUN_MODEL(ConvNet, "convnet", "the classic MNIST network: two convolutions, dropout, two linear layers")
