// SPDX-License-Identifier: MIT
// The U-Net, which predicts the class of each pixel (Ronneberger, Fischer, Brox: "U-Net: Convolutional Networks for
// Biomedical Image Segmentation", MICCAI 2015). Unlike the paper's it pads its convolutions with zeros, so that the
// output has the input's size, and normalizes after them (Ioffe, Szegedy: "Batch Normalization", ICML 2015).
#include "../images/image_network.h"

#include <ddprun/batch_norm.h>
#include <ddprun/model.h>

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>

namespace {

// Two convolutions, each with BatchNorm and ReLU.
class Pair final : public torch::nn::Module {
 public:
  Pair(int64_t inputs, int64_t outputs) {
    conv1_ = register_module("conv1", ddprun::he_convolution(inputs, outputs, 3));
    bn1_ = register_module("bn1", ddprun::BatchNorm(outputs));
    conv2_ = register_module("conv2", ddprun::he_convolution(outputs, outputs, 3));
    bn2_ = register_module("bn2", ddprun::BatchNorm(outputs));
  }

  at::Tensor forward(const at::Tensor& input) { return bn2_->relu(conv2_(bn1_->relu(conv1_(input)))); }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  ddprun::BatchNorm bn1_{nullptr}, bn2_{nullptr};
};

// Doubles height and width, halves the channels, and continues with what the encoder had at that size.
class Up final : public torch::nn::Module {
 public:
  explicit Up(int64_t outputs) {
    up_ = register_module(
        "up", torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(2 * outputs, outputs, 2).stride(2)));
    pair_ = register_module("pair", std::make_shared<Pair>(2 * outputs, outputs));
  }

  at::Tensor forward(const at::Tensor& input, const at::Tensor& skipped) {
    auto x = up_(input);
    // Pooling has dropped the last row or column of an odd size.
    const auto rows = skipped.size(2) - x.size(2), columns = skipped.size(3) - x.size(3);
    if (rows != 0 || columns != 0) x = at::constant_pad_nd(x, {0, columns, 0, rows});
    return pair_->forward(at::cat({skipped, x}, 1));
  }

 private:
  torch::nn::ConvTranspose2d up_{nullptr};
  std::shared_ptr<Pair> pair_;
};

class UNet final : public ddprun::Model {
 public:
  explicit UNet(ddprun::Options& options)
      : width_(options.get<int64_t>("width", 64, "channels at the image's own size; twice as many at each half of it",
                                    {.min = 1, .max = 1024})),
        depth_(options.get<int64_t>("depth", 4, "how often height and width are halved", {.min = 1, .max = 8})) {}

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "unet", int64_t{1} << depth_);
    down_ = register_module("down", torch::nn::ModuleList());
    up_ = register_module("up", torch::nn::ModuleList());
    down_->push_back(std::make_shared<Pair>(data.sample_shape[0], width_));
    for (int64_t level = 0; level < depth_; ++level)
      down_->push_back(std::make_shared<Pair>(width_ << level, width_ << (level + 1)));
    for (int64_t level = depth_ - 1; level >= 0; --level) up_->push_back(std::make_shared<Up>(width_ << level));
    head_ = register_module("head", torch::nn::Conv2d(torch::nn::Conv2dOptions(width_, data.classes, 1)));
  }

  // Maps [B, C, H, W] to [B, classes, H, W].
  at::Tensor forward(const at::Tensor& input) override {
    std::vector<at::Tensor> sizes{down_->at<Pair>(0).forward(input)};
    for (size_t level = 1; level < down_->size(); ++level)
      sizes.push_back(down_->at<Pair>(level).forward(at::max_pool2d(sizes.back(), 2)));
    auto x = sizes.back();
    for (size_t level = 0; level < up_->size(); ++level)
      x = up_->at<Up>(level).forward(x, sizes[sizes.size() - 2 - level]);
    return head_(x);
  }

 private:
  const int64_t width_, depth_;
  torch::nn::ModuleList down_{nullptr}, up_{nullptr};
  torch::nn::Conv2d head_{nullptr};
};

}  // namespace

DDPRUN_MODEL(UNet, "unet", "U-Net for segmentation: the class of each pixel")
