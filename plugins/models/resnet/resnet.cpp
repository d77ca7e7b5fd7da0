// SPDX-License-Identifier: MIT
// Residual networks of basic blocks (He, Zhang, Ren, Sun: "Deep Residual Learning for Image Recognition", CVPR 2016):
// ResNet-18 and ResNet-34. Modules are named as in torchvision, so its weights fit.
#include "../images/image_network.h"

#include <ddprun/batch_norm.h>
#include <ddprun/model.h>

#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <array>

namespace {

constexpr int64_t kLargeImage = 64;  // from this size on, `stem: auto` uses ImageNet's

class BasicBlock final : public torch::nn::Module {
 public:
  BasicBlock(int64_t inputs, int64_t outputs, int64_t stride) {
    conv1_ = register_module("conv1", ddprun::he_convolution(inputs, outputs, 3, stride));
    bn1_ = register_module("bn1", ddprun::BatchNorm(outputs));
    conv2_ = register_module("conv2", ddprun::he_convolution(outputs, outputs, 3));
    bn2_ = register_module("bn2", ddprun::BatchNorm(outputs));
    if (stride == 1 && inputs == outputs) return;
    downsample_ = register_module(
        "downsample",
        torch::nn::Sequential(ddprun::he_convolution(inputs, outputs, 1, stride), ddprun::BatchNorm(outputs)));
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto x = bn2_(conv2_(bn1_(conv1_(input)).relu_()));
    return x.add_(downsample_ ? downsample_->forward(input) : input).relu_();
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  ddprun::BatchNorm bn1_{nullptr}, bn2_{nullptr};
  torch::nn::Sequential downsample_{nullptr};
};

class ResNet final : public ddprun::Model {
 public:
  explicit ResNet(ddprun::Options& options)
      : depth_(options.choose("depth", "18", {"18", "34"}, "layers with weights")),
        stem_(options.choose("stem", "auto", {"auto", "cifar", "imagenet"},
                             "first layers: cifar, a 3x3 convolution; imagenet, 7x7 with stride 2, and max-pooling; "
                             "auto, cifar for images below 64 pixels")) {}

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "resnet", 8);
    const auto& shape = data.sample_shape;
    large_stem_ = stem_ == "imagenet" || (stem_ == "auto" && std::min(shape[1], shape[2]) >= kLargeImage);
    conv1_ = register_module(
        "conv1", large_stem_ ? ddprun::he_convolution(shape[0], 64, 7, 2) : ddprun::he_convolution(shape[0], 64, 3));
    bn1_ = register_module("bn1", ddprun::BatchNorm(64));
    const auto blocks = depth_ == "18" ? std::array<int64_t, 4>{2, 2, 2, 2} : std::array<int64_t, 4>{3, 4, 6, 3};
    int64_t inputs = 64;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const int64_t outputs = int64_t{64} << i;
      layers_[i] = register_module("layer" + std::to_string(i + 1), layer(inputs, outputs, blocks[i], i == 0 ? 1 : 2));
      inputs = outputs;
    }
    fc_ = register_module("fc", torch::nn::Linear(inputs, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto x = bn1_(conv1_(input)).relu_();
    if (large_stem_) x = at::max_pool2d(x, 3, 2, 1);
    for (auto& layer : layers_) x = layer->forward(x);
    return fc_(ddprun::global_average(x));  // [B, classes]
  }

 private:
  static torch::nn::Sequential layer(int64_t inputs, int64_t outputs, int64_t blocks, int64_t stride) {
    torch::nn::Sequential sequence(std::make_shared<BasicBlock>(inputs, outputs, stride));
    for (int64_t i = 1; i < blocks; ++i) sequence->push_back(std::make_shared<BasicBlock>(outputs, outputs, 1));
    return sequence;
  }

  const std::string depth_, stem_;
  bool large_stem_ = false;
  torch::nn::Conv2d conv1_{nullptr};
  ddprun::BatchNorm bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> layers_{nullptr, nullptr, nullptr, nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

DDPRUN_MODEL(ResNet, "resnet", "residual network, ResNet-18 or ResNet-34, for small images or ImageNet's")
