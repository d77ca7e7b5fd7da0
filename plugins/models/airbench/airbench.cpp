// SPDX-License-Identifier: MIT
// The small network that learns CIFAR-10 to 94 % in seconds (Jordan: "94% on CIFAR-10 in 3.29 Seconds on a Single GPU",
// 2024), with the head of its later variant for Muon:
//
//   whiten           a fixed 2x2 convolution that whitens the training images' patches, both signs of each, with a
//                    trained bias
//   block1 ... 3     conv 3x3, max-pool 2, BatchNorm, GELU, conv 3x3, BatchNorm, GELU
//   head             max-pool over all that is left, a linear layer without bias, the mean over its inputs in the
//                    place of the sum
//
// Trained parameters fall into three kinds for an optimizer's groups: the filters *.conv?.weight, the biases
// *.norm?.bias and whiten.bias, and head.weight.
#include "../images/image_network.h"
#include "whitening.h"

#include <ddprun/batch_norm.h>
#include <ddprun/model.h>

#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/reflection_pad2d.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <array>

namespace {

constexpr int64_t kPatch = 2;

// Starts with the identity as far as there are inputs; further outputs start as torch's do.
torch::nn::Conv2d identity_convolution(int64_t inputs, int64_t outputs) {
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(inputs, outputs, 3).padding(1).bias(false));
  torch::nn::init::dirac_(convolution->weight.detach().narrow(0, 0, std::min(inputs, outputs)));
  return convolution;
}

// Has no weight, since the next convolution scales. Its running statistics cover only the last few batches.
ddprun::BatchNorm quick_norm(int64_t channels) {
  return ddprun::BatchNorm(
      ddprun::BatchNormOptions{.channels = channels, .eps = 1e-12, .momentum = 0.4, .scale = false});
}

class Block final : public torch::nn::Module {
 public:
  Block(int64_t inputs, int64_t outputs) {
    conv1_ = register_module("conv1", identity_convolution(inputs, outputs));
    norm1_ = register_module("norm1", quick_norm(outputs));
    conv2_ = register_module("conv2", identity_convolution(outputs, outputs));
    norm2_ = register_module("norm2", quick_norm(outputs));
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto x = at::gelu(norm1_(at::max_pool2d(conv1_(input), 2)));
    return at::gelu(norm2_(conv2_(x)));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  ddprun::BatchNorm norm1_{nullptr}, norm2_{nullptr};
};

class Airbench final : public ddprun::Model {
 public:
  explicit Airbench(ddprun::Options& options)
      : widths_(options.get<std::vector<int64_t>>("widths", {64, 256, 256}, "channels of the three blocks",
                                                  {.min = 1, .max = 1 << 14})),
        tta_(options.choose("tta", "translate", {"none", "mirror", "translate"},
                            "evaluation averages over an image and its mirror image, and over both moved by a pixel")) {
    whitening_.images = options.get<int64_t>("whitening_images", whitening_.images,
                                             "training images that the first layer is made from", {.min = 1});
    whitening_.eps = options.get<double>("whitening_eps", whitening_.eps,
                                         "added to the variances that the first layer divides by", {.min = 1e-12});
    if (widths_.size() == blocks_.size()) return;
    options.reject("widths", "expected three numbers, as in [64, 256, 256]");
    widths_ = {64, 256, 256};
  }

  // Until initialize(), the filters of `whiten` each pass one pixel of the patch.
  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "airbench", 9);
    const auto channels = data.sample_shape[0], numbers = channels * kPatch * kPatch;
    whiten_ = register_module("whiten", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 2 * numbers, kPatch)));
    whiten_->weight.set_requires_grad(false);
    set_filters(at::eye(numbers).view({numbers, channels, kPatch, kPatch}));
    auto inputs = 2 * numbers;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      blocks_[i] = register_module("block" + std::to_string(i + 1), std::make_shared<Block>(inputs, widths_[i]));
      inputs = widths_[i];
    }
    head_ = register_module("head", torch::nn::Linear(torch::nn::LinearOptions(inputs, data.classes).bias(false)));
    const torch::NoGradGuard no_gradients;
    head_->weight.div_(head_->weight.std());  // logits start near 0: they are divided by the width
  }

  void initialize(const ddprun::Dataset& data) override {
    set_filters(ddprun::airbench::whitening_filters(data, whitening_));
  }

  at::Tensor forward(const at::Tensor& input) override {
    if (is_training() || tta_ == "none") return logits(input);
    const auto unmoved = mirrored(input);
    if (tta_ == "mirror") return unmoved;
    const auto height = input.size(2), width = input.size(3);
    const auto padded = at::reflection_pad2d(input, {1, 1, 1, 1});
    const auto moved = [&](int64_t by) { return mirrored(padded.slice(2, by, by + height).slice(3, by, by + width)); };
    return (unmoved + (moved(0) + moved(2)) / 2) / 2;
  }

 private:
  // [B, classes]
  at::Tensor logits(const at::Tensor& input) {
    auto x = at::gelu(whiten_(input));
    for (auto& block : blocks_) x = block->forward(x);
    return head_(at::max_pool2d(x, {x.size(2), x.size(3)}).flatten(1)) / widths_.back();
  }

  at::Tensor mirrored(const at::Tensor& input) { return (logits(input) + logits(input.flip(3))) / 2; }

  void set_filters(const at::Tensor& filters) {
    const torch::NoGradGuard no_gradients;
    whiten_->weight.copy_(at::cat({filters, -filters}));
  }

  std::vector<int64_t> widths_;
  const std::string tta_;
  ddprun::airbench::Whitening whitening_{.side = kPatch};
  torch::nn::Conv2d whiten_{nullptr};
  std::array<std::shared_ptr<Block>, 3> blocks_;
  torch::nn::Linear head_{nullptr};
};

}  // namespace

DDPRUN_MODEL(Airbench, "airbench", "the small convolutional network that learns CIFAR-10 in seconds")
