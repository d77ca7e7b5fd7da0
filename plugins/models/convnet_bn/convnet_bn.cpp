// SPDX-License-Identifier: MIT
// Two blocks of convolution, BatchNorm, ReLU and pooling, and one linear layer: the network of the well-known MNIST
// tutorial for distributed training. Module names are the tutorial's, so its weights fit.
#include "../images/image_network.h"

#include <ddprun/batch_norm.h>
#include <ddprun/model.h>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace {

constexpr int64_t kChannels1 = 16, kChannels2 = 32;

torch::nn::Sequential block(int64_t inputs, int64_t outputs) {
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, 5).padding(2)),
                               ddprun::BatchNorm(outputs));
}

class ConvNetBn final : public ddprun::Model {
 public:
  explicit ConvNetBn(ddprun::Options&) {}

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "convnet_bn", 4);
    const auto& shape = data.sample_shape;
    layer1_ = register_module("layer1", block(shape[0], kChannels1));
    layer2_ = register_module("layer2", block(kChannels1, kChannels2));
    fc_ = register_module("fc", torch::nn::Linear(kChannels2 * (shape[1] / 4) * (shape[2] / 4), data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    return fc_(pooled(layer2_, pooled(layer1_, input)).flatten(1));  // [B, classes]
  }

 private:
  static at::Tensor pooled(torch::nn::Sequential& layer, const at::Tensor& input) {
    const auto x = layer->at<torch::nn::Conv2dImpl>(0).forward(input);
    return layer->at<ddprun::BatchNormImpl>(1).pool_relu(x);
  }

  torch::nn::Sequential layer1_{nullptr}, layer2_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

DDPRUN_MODEL(ConvNetBn, "convnet_bn", "two blocks of convolution, BatchNorm, ReLU and pooling, one linear layer")
