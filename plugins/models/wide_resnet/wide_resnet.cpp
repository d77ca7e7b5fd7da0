// SPDX-License-Identifier: MIT
// Wide residual networks (Zagoruyko, Komodakis: "Wide Residual Networks", BMVC 2016) for small images:
// WRN-depth-widen_factor. Modules are named as in the PyTorch version that most others follow (block1.layer.0.conv1,
// convShortcut), so its weights fit; dropout comes right after a block's first convolution, as it does there.
#include "../images/image_network.h"

#include <ddprun/batch_norm.h>
#include <ddprun/dropout.h>
#include <ddprun/model.h>
#include <ddprun/recompute.h>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace {

constexpr int64_t kBlocksPerUnitOfDepth = 6;  // three groups, two convolutions in each block
constexpr int64_t kOtherLayers = 4;

// Normalizes and activates before it convolves. If the number of channels changes, the shortcut also convolves the
// activated input.
class WideBlock final : public torch::nn::Module {
 public:
  WideBlock(int64_t inputs, int64_t outputs, int64_t stride, double dropout) : dropout_(dropout) {
    bn1_ = register_module("bn1", ddprun::BatchNorm(inputs));
    conv1_ = register_module("conv1", ddprun::he_convolution(inputs, outputs, 3, stride));
    bn2_ = register_module("bn2", ddprun::BatchNorm(outputs));
    conv2_ = register_module("conv2", ddprun::he_convolution(outputs, outputs, 3));
    if (inputs != outputs)
      shortcut_ = register_module("convShortcut", ddprun::he_convolution(inputs, outputs, 1, stride));
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto active = bn1_->relu(input);
    const auto x = ddprun::dropout(conv1_(active), dropout_, is_training());
    return conv2_(bn2_->relu(x)).add_(shortcut_ ? shortcut_(active) : input);
  }

 private:
  const double dropout_;
  ddprun::BatchNorm bn1_{nullptr}, bn2_{nullptr};
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, shortcut_{nullptr};
};

class WideResNet final : public ddprun::Model {
 public:
  explicit WideResNet(ddprun::Options& options)
      : depth_(options.get<int64_t>("depth", 28,
                                    "layers with weights: 6 n + 4 for n blocks in each of the three groups",
                                    {.min = 10, .max = 1000})),
        widen_factor_(options.get<int64_t>(
            "widen_factor", 10, "channels, in multiples of the thin network's 16, 32, 64", {.min = 1, .max = 64})),
        dropout_(options.get<double>("dropout", 0, "probability of dropping a value between a block's two convolutions",
                                     {.min = 0, .max = 1})) {
    const auto excess = (depth_ - kOtherLayers) % kBlocksPerUnitOfDepth;
    if (excess != 0) {
      options.reject("depth", "expected 6 n + 4, such as " + std::to_string(depth_ - excess) + " or " +
                                  std::to_string(depth_ - excess + kBlocksPerUnitOfDepth) + ", found " +
                                  std::to_string(depth_));
    }
  }

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "wide_resnet", 4);
    conv1_ = register_module("conv1", ddprun::he_convolution(data.sample_shape[0], 16, 3));
    block1_ = register_group("block1", 16, 16 * widen_factor_, 1);
    block2_ = register_group("block2", 16 * widen_factor_, 32 * widen_factor_, 2);
    block3_ = register_group("block3", 32 * widen_factor_, 64 * widen_factor_, 2);
    bn1_ = register_module("bn1", ddprun::BatchNorm(64 * widen_factor_));
    fc_ = register_module("fc", torch::nn::Linear(64 * widen_factor_, data.classes));
    const torch::NoGradGuard no_gradients;
    fc_->bias.zero_();
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto x = conv1_(input);
    for (auto group : {block1_, block2_, block3_}) x = ddprun::recomputed_each(*group, x);
    return fc_(ddprun::global_average(bn1_->relu(x)));  // [B, classes]
  }

 private:
  torch::nn::Sequential register_group(const std::string& name, int64_t inputs, int64_t outputs, int64_t stride) {
    torch::nn::Sequential blocks(std::make_shared<WideBlock>(inputs, outputs, stride, dropout_));
    for (int64_t more = (depth_ - kOtherLayers) / kBlocksPerUnitOfDepth - 1; more > 0; --more) {
      blocks->push_back(std::make_shared<WideBlock>(outputs, outputs, 1, dropout_));
    }
    register_module(name, std::make_shared<torch::nn::Module>(name))->register_module("layer", blocks);
    return blocks;
  }

  const int64_t depth_, widen_factor_;
  const double dropout_;
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Sequential block1_{nullptr}, block2_{nullptr}, block3_{nullptr};
  ddprun::BatchNorm bn1_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

DDPRUN_MODEL(WideResNet, "wide_resnet", "wide residual network for small images (WRN-28-10 by default)")
