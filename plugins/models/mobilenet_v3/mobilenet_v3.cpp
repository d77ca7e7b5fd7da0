// SPDX-License-Identifier: MIT
// MobileNetV3 (Howard et al.: "Searching for MobileNetV3", ICCV 2019), large and small, with the squeeze-and-excitation
// of Hu, Shen, Sun, "Squeeze-and-Excitation Networks" (CVPR 2018). Modules are named as in torchvision, so its weights
// fit; eps and momentum of the norms and the initial weights are torchvision's too.
#include "../images/image_network.h"

#include <ddprun/batch_norm.h>
#include <ddprun/dropout.h>
#include <ddprun/model.h>
#include <ddprun/recompute.h>

#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>

namespace {

using ddprun::Layers;

constexpr double kLinearDeviation = 0.01;  // of initial weights of the classifier
constexpr int64_t kSqueeze = 4;            // channels for each one of a squeeze
constexpr int64_t kLastExpansion = 6;      // of the last convolution

enum class Activation { kNone, kRelu, kHardswish };

// A row of the paper's tables 1 and 2.
struct Row {
  int64_t kernel, expanded, outputs;
  bool squeezes;
  Activation activation;
  int64_t stride;
};

struct Form {
  std::vector<Row> rows;
  int64_t classifier;  // units of its hidden layer
};

constexpr int64_t kFirst = 16;  // channels of the first convolution
constexpr auto kRe = Activation::kRelu, kHs = Activation::kHardswish;

const Form kLarge{{{3, 16, 16, false, kRe, 1},
                   {3, 64, 24, false, kRe, 2},
                   {3, 72, 24, false, kRe, 1},
                   {5, 72, 40, true, kRe, 2},
                   {5, 120, 40, true, kRe, 1},
                   {5, 120, 40, true, kRe, 1},
                   {3, 240, 80, false, kHs, 2},
                   {3, 200, 80, false, kHs, 1},
                   {3, 184, 80, false, kHs, 1},
                   {3, 184, 80, false, kHs, 1},
                   {3, 480, 112, true, kHs, 1},
                   {3, 672, 112, true, kHs, 1},
                   {5, 672, 160, true, kHs, 2},
                   {5, 960, 160, true, kHs, 1},
                   {5, 960, 160, true, kHs, 1}},
                  1280};
const Form kSmall{{{3, 16, 16, true, kRe, 2},
                   {3, 72, 24, false, kRe, 2},
                   {3, 88, 24, false, kRe, 1},
                   {5, 96, 40, true, kHs, 2},
                   {5, 240, 40, true, kHs, 1},
                   {5, 240, 40, true, kHs, 1},
                   {5, 120, 48, true, kHs, 1},
                   {5, 144, 48, true, kHs, 1},
                   {5, 288, 96, true, kHs, 2},
                   {5, 576, 96, true, kHs, 1},
                   {5, 576, 96, true, kHs, 1}},
                  1024};

// Rounds to a multiple of 8, but not down by more than a tenth.
int64_t rounded(int64_t channels) {
  const auto near = std::max<int64_t>(8, (channels + 4) / 8 * 8);
  return near * 10 < channels * 9 ? near + 8 : near;
}

// A convolution, BatchNorm and an activation.
std::shared_ptr<Layers> convolution(int64_t inputs, int64_t outputs, int64_t kernel, Activation activation,
                                    int64_t stride = 1, int64_t groups = 1) {
  auto layers = std::make_shared<Layers>(
      ddprun::he_convolution(inputs, outputs, kernel, stride, groups),
      ddprun::BatchNorm(ddprun::BatchNormOptions{.channels = outputs, .eps = 1e-3, .momentum = 0.01}));
  if (activation == kRe) layers->push_back(torch::nn::Functional([](at::Tensor x) { return x.relu_(); }));
  if (activation == kHs) layers->push_back(torch::nn::Functional([](at::Tensor x) { return at::hardswish(x); }));
  return layers;
}

// Scales each channel by a number between 0 and 1 that depends on the means of all.
class SqueezeExcitation final : public torch::nn::Module {
 public:
  SqueezeExcitation(int64_t channels, int64_t squeezed) {
    fc1_ = register_module("fc1", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, squeezed, 1)));
    fc2_ = register_module("fc2", torch::nn::Conv2d(torch::nn::Conv2dOptions(squeezed, channels, 1)));
    for (const auto& layer : {fc1_, fc2_}) {
      torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
      torch::nn::init::zeros_(layer->bias);
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto means = input.mean({2, 3}, /*keepdim=*/true);
    return at::hardsigmoid(fc2_(fc1_(means).relu_())) * input;
  }

 private:
  torch::nn::Conv2d fc1_{nullptr}, fc2_{nullptr};
};

// Expands the channels, convolves each by itself, and projects to few channels again.
class InvertedResidual final : public torch::nn::Module {
 public:
  InvertedResidual(int64_t inputs, const Row& row) : adds_input_(row.stride == 1 && inputs == row.outputs) {
    block_ = register_module("block", torch::nn::Sequential());
    if (row.expanded != inputs) block_->push_back(convolution(inputs, row.expanded, 1, row.activation));
    block_->push_back(
        convolution(row.expanded, row.expanded, row.kernel, row.activation, row.stride, /*groups=*/row.expanded));
    if (row.squeezes)
      block_->push_back(std::make_shared<SqueezeExcitation>(row.expanded, rounded(row.expanded / kSqueeze)));
    block_->push_back(convolution(row.expanded, row.outputs, 1, Activation::kNone));
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto x = block_->forward(input);
    return adds_input_ ? x.add_(input) : x;
  }

 private:
  const bool adds_input_;
  torch::nn::Sequential block_{nullptr};
};

class MobileNetV3 final : public ddprun::Model {
 public:
  explicit MobileNetV3(ddprun::Options& options)
      : form_(options.choose("size", "large", {"large", "small"}, "the paper's network") == "large" ? kLarge : kSmall),
        dropout_(options.get<double>("dropout", 0.2, "probability of dropping a value before the last layer",
                                     {.min = 0, .max = 0.99})) {}

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "mobilenet_v3", 8);
    features_ = register_module("features", torch::nn::Sequential());
    features_->push_back(convolution(data.sample_shape[0], kFirst, 3, kHs, /*stride=*/2));
    auto inputs = kFirst;
    for (const auto& row : form_.rows) {
      features_->push_back(std::make_shared<InvertedResidual>(inputs, row));
      inputs = row.outputs;
    }
    features_->push_back(convolution(inputs, kLastExpansion * inputs, 1, kHs));
    const auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>("classifier"));
    hidden_ = classifier->register_module("0", torch::nn::Linear(kLastExpansion * inputs, form_.classifier));
    output_ = classifier->register_module("3", torch::nn::Linear(form_.classifier, data.classes));
    for (const auto& layer : {hidden_, output_}) {
      torch::nn::init::normal_(layer->weight, 0, kLinearDeviation);
      torch::nn::init::zeros_(layer->bias);
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    const auto features = ddprun::recomputed_each(*features_, input);
    const auto hidden = at::hardswish(hidden_(ddprun::global_average(features)));
    return output_(ddprun::dropout(hidden, dropout_, is_training()));  // [B, classes]
  }

 private:
  const Form& form_;
  const double dropout_;
  torch::nn::Sequential features_{nullptr};
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(MobileNetV3, "mobilenet_v3", "MobileNetV3, large or small: an image network for phones")
