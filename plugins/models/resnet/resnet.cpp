// SPDX-License-Identifier: MIT
// Residual networks (He, Zhang, Ren, Sun: "Deep Residual Learning for Image Recognition", CVPR 2016): ResNet-18 and -34
// of basic blocks; ResNet-50, -101 and -152 of bottlenecks that shrink the picture in their 3x3 convolution ("v1.5"),
// also wide (Zagoruyko, Komodakis: "Wide Residual Networks", BMVC 2016) or grouped (Xie et al.: "Aggregated Residual
// Transformations for Deep Neural Networks", CVPR 2017). Modules are named as in torchvision, so its weights fit.
#include "../images/image_network.h"

#include <ddprun/batch_norm.h>
#include <ddprun/model.h>
#include <ddprun/recompute.h>

#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <array>
#include <map>

namespace {

constexpr int64_t kLargeImage = 64;  // from this size on, `stem: auto` uses ImageNet's
constexpr int64_t kChannels = 64;    // of the first group; each later one has twice as many

struct Form {
  std::array<int64_t, 4> blocks;  // in each group
  int64_t expansion;              // outputs of a block for each channel of its group: 4 for bottlenecks
};

const std::map<std::string, Form> kForms{{"18", {{2, 2, 2, 2}, 1}},
                                         {"34", {{3, 4, 6, 3}, 1}},
                                         {"50", {{3, 4, 6, 3}, 4}},
                                         {"101", {{3, 4, 23, 3}, 4}},
                                         {"152", {{3, 8, 36, 3}, 4}}};

// What both kinds of block share: the input, projected if its shape differs from the output's, is added.
class Block : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& input) {
    const auto x = residual(input);
    return x.add_(downsample_ ? downsample_->forward(input) : input).relu_();
  }

 protected:
  virtual at::Tensor residual(const at::Tensor& input) = 0;

  // Called last, so that modules are registered in torchvision's order.
  void shortcut(int64_t inputs, int64_t outputs, int64_t stride) {
    if (stride == 1 && inputs == outputs) return;
    downsample_ = register_module(
        "downsample",
        torch::nn::Sequential(ddprun::he_convolution(inputs, outputs, 1, stride), ddprun::BatchNorm(outputs)));
  }

 private:
  torch::nn::Sequential downsample_{nullptr};
};

class BasicBlock final : public Block {
 public:
  BasicBlock(int64_t inputs, int64_t outputs, int64_t stride) {
    conv1_ = register_module("conv1", ddprun::he_convolution(inputs, outputs, 3, stride));
    bn1_ = register_module("bn1", ddprun::BatchNorm(outputs));
    conv2_ = register_module("conv2", ddprun::he_convolution(outputs, outputs, 3));
    bn2_ = register_module("bn2", ddprun::BatchNorm(outputs));
    shortcut(inputs, outputs, stride);
  }

 private:
  at::Tensor residual(const at::Tensor& input) override { return bn2_(conv2_(bn1_->relu(conv1_(input)))); }

  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  ddprun::BatchNorm bn1_{nullptr}, bn2_{nullptr};
};

class Bottleneck final : public Block {
 public:
  Bottleneck(int64_t inputs, int64_t width, int64_t outputs, int64_t stride, int64_t groups) {
    conv1_ = register_module("conv1", ddprun::he_convolution(inputs, width, 1));
    bn1_ = register_module("bn1", ddprun::BatchNorm(width));
    conv2_ = register_module("conv2", ddprun::he_convolution(width, width, 3, stride, groups));
    bn2_ = register_module("bn2", ddprun::BatchNorm(width));
    conv3_ = register_module("conv3", ddprun::he_convolution(width, outputs, 1));
    bn3_ = register_module("bn3", ddprun::BatchNorm(outputs));
    shortcut(inputs, outputs, stride);
  }

 private:
  at::Tensor residual(const at::Tensor& input) override {
    const auto x = bn2_->relu(conv2_(bn1_->relu(conv1_(input))));
    return bn3_(conv3_(x));
  }

  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  ddprun::BatchNorm bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
};

class ResNet final : public ddprun::Model {
 public:
  explicit ResNet(ddprun::Options& options)
      : form_(kForms.at(options.choose("depth", "18", {"18", "34", "50", "101", "152"},
                                       "layers with weights; 50 and more have "
                                       "bottlenecks"))),
        width_(options.get<int64_t>("width", kChannels,
                                    "channels per group inside the first bottlenecks: 128 for wide_resnet50_2, 4 with "
                                    "32 groups for resnext50_32x4d",
                                    {.min = 1, .max = 1024})),
        groups_(options.get<int64_t>("groups", 1, "groups of a bottleneck's 3x3 convolution", {.min = 1, .max = 1024})),
        stem_(options.choose("stem", "auto", {"auto", "cifar", "imagenet"},
                             "first layers: cifar, a 3x3 convolution; imagenet, 7x7 with stride 2, and max-pooling; "
                             "auto, cifar for images below 64 pixels, where it takes five times as long")) {
    for (const auto* name : {"width", "groups"}) {
      if (form_.expansion == 1 && options.has(name))
        options.reject(name, "it is for bottlenecks; set depth to 50, 101 or 152, or leave it out");
    }
  }

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "resnet", 8);
    const auto& shape = data.sample_shape;
    large_stem_ = stem_ == "imagenet" || (stem_ == "auto" && std::min(shape[1], shape[2]) >= kLargeImage);
    conv1_ = register_module("conv1", large_stem_ ? ddprun::he_convolution(shape[0], kChannels, 7, 2)
                                                  : ddprun::he_convolution(shape[0], kChannels, 3));
    bn1_ = register_module("bn1", ddprun::BatchNorm(kChannels));
    int64_t inputs = kChannels;
    for (size_t i = 0; i < layers_.size(); ++i) {
      layers_[i] = register_module("layer" + std::to_string(i + 1), layer(inputs, i));
      inputs = (kChannels << i) * form_.expansion;
    }
    fc_ = register_module("fc", torch::nn::Linear(inputs, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto x = bn1_->relu(conv1_(input));
    if (large_stem_) x = at::max_pool2d(x, 3, 2, 1);
    for (auto& layer : layers_) x = ddprun::recomputed_each(*layer, x);
    return fc_(ddprun::global_average(x));  // [B, classes]
  }

 private:
  // Makes the blocks of group i. The first one of each but the first group halves height and width.
  torch::nn::Sequential layer(int64_t inputs, size_t i) const {
    const auto channels = kChannels << i, outputs = channels * form_.expansion;
    torch::nn::Sequential sequence;
    for (int64_t block = 0; block < form_.blocks[i]; ++block) {
      const int64_t stride = block == 0 && i > 0 ? 2 : 1;
      if (form_.expansion == 1) {
        sequence->push_back(std::make_shared<BasicBlock>(inputs, outputs, stride));
      } else {
        const auto width = channels * width_ / kChannels * groups_;
        sequence->push_back(std::make_shared<Bottleneck>(inputs, width, outputs, stride, groups_));
      }
      inputs = outputs;
    }
    return sequence;
  }

  const Form form_;
  const int64_t width_, groups_;
  const std::string stem_;
  bool large_stem_ = false;
  torch::nn::Conv2d conv1_{nullptr};
  ddprun::BatchNorm bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> layers_{nullptr, nullptr, nullptr, nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

DDPRUN_MODEL(ResNet, "resnet", "residual network, ResNet-18 to -152, also wide ones, for small images or ImageNet's")
