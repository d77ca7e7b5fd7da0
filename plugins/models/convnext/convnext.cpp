// SPDX-License-Identifier: MIT
// ConvNeXt (Liu et al.: "A ConvNet for the 2020s", CVPR 2022), with the layer scale of Touvron et al., "Going deeper
// with Image Transformers" (ICCV 2021), and the stochastic depth of Huang et al., "Deep Networks with Stochastic Depth"
// (ECCV 2016), by sample. Modules are named as in torchvision, so its weights fit; initial weights are drawn as there.
//
// Shapes: B = samples, C = channels.
#include "../images/image_network.h"

#include <ddprun/model.h>
#include <ddprun/recompute.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace {

using ddprun::Layers;

constexpr double kEps = 1e-6;         // of the norms
constexpr double kLayerScale = 1e-6;  // at the start
constexpr double kDeviation = 0.02;   // of initial weights
constexpr int64_t kExpansion = 4;     // of the channels inside a block

struct Form {
  std::vector<int64_t> widths, depths;  // channels and blocks of the four stages
  double stochastic_depth = 0;
};

const std::map<std::string, Form> kSizes{{"tiny", {{96, 192, 384, 768}, {3, 3, 9, 3}, 0.1}},
                                         {"small", {{96, 192, 384, 768}, {3, 3, 27, 3}, 0.4}},
                                         {"base", {{128, 256, 512, 1024}, {3, 3, 27, 3}, 0.5}},
                                         {"large", {{192, 384, 768, 1536}, {3, 3, 27, 3}, 0.5}}};

template <class Layer>
Layer started(Layer layer) {
  ddprun::fill_truncated_normal(layer->weight, kDeviation);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

torch::nn::Conv2d convolution(int64_t inputs, int64_t outputs, int64_t kernel) {
  return started(torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, kernel).stride(kernel)));
}

torch::nn::LayerNorm norm(int64_t channels) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({channels}).eps(kEps));
}

// Normalizes each pixel over its channels, [B, C, H, W].
class PixelNorm final : public torch::nn::LayerNormImpl {
 public:
  explicit PixelNorm(int64_t channels) : LayerNormImpl(torch::nn::LayerNormOptions({channels}).eps(kEps)) {}

  at::Tensor forward(const at::Tensor& input) {
    return LayerNormImpl::forward(input.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
  }
};

class Block final : public torch::nn::Module {
 public:
  Block(int64_t channels, double stochastic_depth) : stochastic_depth_(stochastic_depth) {
    scale_ = register_parameter("layer_scale", torch::full({channels, 1, 1}, kLayerScale));
    const auto block = register_module("block", std::make_shared<torch::nn::Module>("block"));
    const auto options = torch::nn::Conv2dOptions(channels, channels, 7).padding(3).groups(channels);
    depthwise_ = block->register_module("0", started(torch::nn::Conv2d(options)));
    norm_ = block->register_module("2", norm(channels));
    expand_ = block->register_module("3", started(torch::nn::Linear(channels, kExpansion * channels)));
    reduce_ = block->register_module("5", started(torch::nn::Linear(kExpansion * channels, channels)));
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto x = norm_(depthwise_(input).permute({0, 2, 3, 1}));
    const auto mixed = ddprun::linear(reduce_, at::gelu(ddprun::linear(expand_, x)));
    return kept(scale_ * mixed.permute({0, 3, 1, 2})).add_(input);
  }

 private:
  // In training, leaves out the block for some samples and makes up for it at the others.
  at::Tensor kept(const at::Tensor& x) const {
    if (!is_training() || stochastic_depth_ == 0) return x;
    const double survival = 1 - stochastic_depth_;
    return x * at::empty({x.size(0), 1, 1, 1}, x.options()).bernoulli_(survival).div_(survival);
  }

  const double stochastic_depth_;
  at::Tensor scale_;
  torch::nn::Conv2d depthwise_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear expand_{nullptr}, reduce_{nullptr};
};

class Stage final : public torch::nn::SequentialImpl {
 public:
  at::Tensor forward(const at::Tensor& input) { return ddprun::recomputed_each(*this, input); }
};

class ConvNeXt final : public ddprun::Model {
 public:
  explicit ConvNeXt(ddprun::Options& options) {
    const auto size = options.choose("size", "tiny", {"tiny", "small", "base", "large"},
                                     "widths, depths and stochastic depth as published");
    const auto& named = kSizes.at(size);
    patch_ = options.get<int64_t>("patch", 4, "pixels that the first convolution makes one of; less for small images",
                                  {.min = 1, .max = 64});
    form_.widths = options.get<std::vector<int64_t>>("widths", named.widths, "channels of each stage; those of size",
                                                     {.min = 1, .max = 1 << 14});
    form_.depths = options.get<std::vector<int64_t>>("depths", named.depths, "blocks of each stage; those of size",
                                                     {.min = 1, .max = 1000});
    form_.stochastic_depth = options.get<double>("stochastic_depth", named.stochastic_depth,
                                                 "probability of leaving out the last block for a sample in training, "
                                                 "less for earlier ones; that of size",
                                                 {.min = 0, .max = 0.99});
    if (form_.widths.size() == form_.depths.size() && !form_.widths.empty()) return;
    options.reject("depths", "expected as many numbers as widths has, " + std::to_string(form_.widths.size()) +
                                 ", found " + std::to_string(form_.depths.size()));
  }

  void prepare(const ddprun::DataSpec& data) override {
    const auto stages = form_.widths.size();
    ddprun::require_images(data, "convnext", patch_ << (stages - 1));
    features_ = register_module("features", torch::nn::Sequential());
    features_->push_back(std::make_shared<Layers>(convolution(data.sample_shape[0], form_.widths[0], patch_),
                                                  std::make_shared<PixelNorm>(form_.widths[0])));
    int64_t before = 0;  // blocks in earlier stages
    for (size_t i = 0; i < stages; ++i) {
      features_->push_back(stage(i, before));
      before += form_.depths[i];
      if (i + 1 < stages)
        features_->push_back(std::make_shared<Layers>(std::make_shared<PixelNorm>(form_.widths[i]),
                                                      convolution(form_.widths[i], form_.widths[i + 1], 2)));
    }
    const auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>("classifier"));
    norm_ = classifier->register_module("0", norm(form_.widths.back()));
    output_ = classifier->register_module("2", started(torch::nn::Linear(form_.widths.back(), data.classes)));
  }

  at::Tensor forward(const at::Tensor& input) override {
    return output_(norm_(ddprun::global_average(features_->forward(input))));  // [B, classes]
  }

 private:
  std::shared_ptr<Stage> stage(size_t i, int64_t before) const {
    const auto all = std::accumulate(form_.depths.begin(), form_.depths.end(), int64_t{0});
    auto blocks = std::make_shared<Stage>();
    for (int64_t block = before; block < before + form_.depths[i]; ++block) {
      const auto share = static_cast<double>(block) / static_cast<double>(std::max<int64_t>(1, all - 1));
      blocks->push_back(std::make_shared<Block>(form_.widths[i], form_.stochastic_depth * share));
    }
    return blocks;
  }

  Form form_;
  int64_t patch_ = 0;
  torch::nn::Sequential features_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(ConvNeXt, "convnext", "ConvNeXt: tiny by default, small, base, large, or one of your own sizes")
