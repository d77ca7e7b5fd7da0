// SPDX-License-Identifier: MIT
// Vision transformers (Dosovitskiy et al.: "An Image is Worth 16x16 Words: Transformers for Image Recognition at
// Scale", ICLR 2021), also of the smaller sizes of Touvron et al., "Training data-efficient image transformers" (ICML
// 2021). Modules are named as in torchvision, so its weights fit, and initial weights are drawn as there: a head of
// zeros (the paper's), Glorot's uniform distribution for the matrices.
//
// Shapes: B = samples, T = patches of a picture + 1 for the class, W = width.
#include "../images/image_network.h"

#include <ddprun/dropout.h>
#include <ddprun/error.h>
#include <ddprun/model.h>
#include <ddprun/recompute.h>

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <cmath>
#include <map>

namespace {

constexpr double kEps = 1e-6;                // of the norms
constexpr double kPositionDeviation = 0.02;  // of initial positions
constexpr double kBiasDeviation = 1e-6;      // of initial biases in the feed-forward parts

struct Form {
  int64_t depth = 0, heads = 0, width = 0, mlp = 0;
  double dropout = 0, attention_dropout = 0;
};

const std::map<std::string, Form> kSizes{{"tiny", {12, 3, 192, 768}},
                                         {"small", {12, 6, 384, 1536}},
                                         {"base", {12, 12, 768, 3072}},
                                         {"large", {24, 16, 1024, 4096}},
                                         {"huge", {32, 16, 1280, 5120}}};

torch::nn::LayerNorm norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(kEps));
}

// Attends from each position to all. It has the parameters of torch.nn.MultiheadAttention.
class SelfAttention final : public torch::nn::Module {
 public:
  explicit SelfAttention(const Form& form) : form_(form) {
    in_weight_ = register_parameter("in_proj_weight", torch::empty({3 * form.width, form.width}));
    in_bias_ = register_parameter("in_proj_bias", torch::zeros({3 * form.width}));
    out_ = register_module("out_proj", torch::nn::Linear(form.width, form.width));
    torch::nn::init::xavier_uniform_(in_weight_);
    torch::nn::init::zeros_(out_->bias);
  }

  at::Tensor forward(const at::Tensor& x) {
    const auto parts = at::linear(x, in_weight_, in_bias_)
                           .unflatten(2, {3, form_.heads, form_.width / form_.heads})
                           .permute({2, 0, 3, 1, 4});  // [3, B, heads, T, W / heads]
    const auto mixed =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, is_training() ? form_.attention_dropout : 0);
    return ddprun::linear(out_, mixed.transpose(1, 2).flatten(2));
  }

 private:
  const Form form_;
  at::Tensor in_weight_, in_bias_;
  torch::nn::Linear out_{nullptr};
};

// Attention and a feed-forward part, each added to its input.
class Block final : public torch::nn::Module {
 public:
  explicit Block(const Form& form) : dropout_(form.dropout) {
    norm1_ = register_module("ln_1", norm(form.width));
    attention_ = register_module("self_attention", std::make_shared<SelfAttention>(form));
    norm2_ = register_module("ln_2", norm(form.width));
    const auto mlp = register_module("mlp", std::make_shared<torch::nn::Module>("mlp"));
    hidden_ = mlp->register_module("0", torch::nn::Linear(form.width, form.mlp));
    output_ = mlp->register_module("3", torch::nn::Linear(form.mlp, form.width));
    for (const auto& layer : {hidden_, output_}) {
      torch::nn::init::xavier_uniform_(layer->weight);
      torch::nn::init::normal_(layer->bias, 0, kBiasDeviation);
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto x = input + dropped(attention_->forward(norm1_(input)));
    const auto hidden = dropped(at::gelu(ddprun::linear(hidden_, norm2_(x))));
    return x + dropped(ddprun::linear(output_, hidden));
  }

 private:
  at::Tensor dropped(const at::Tensor& x) const { return ddprun::dropout(x, dropout_, is_training()); }

  const double dropout_;
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  std::shared_ptr<SelfAttention> attention_;
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

// Adds the positions, and runs the blocks.
class Encoder final : public torch::nn::Module {
 public:
  Encoder(const Form& form, int64_t positions) : dropout_(form.dropout) {
    positions_ = register_parameter("pos_embedding", torch::empty({1, positions, form.width}));
    torch::nn::init::normal_(positions_, 0, kPositionDeviation);
    layers_ = register_module("layers", torch::nn::Sequential());
    for (int64_t i = 0; i < form.depth; ++i)
      layers_->push_back("encoder_layer_" + std::to_string(i), std::make_shared<Block>(form));
    norm_ = register_module("ln", norm(form.width));
  }

  at::Tensor forward(const at::Tensor& input) {
    return norm_(ddprun::recomputed_each(*layers_, ddprun::dropout(input + positions_, dropout_, is_training())));
  }

 private:
  const double dropout_;
  at::Tensor positions_;
  torch::nn::Sequential layers_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
};

class VisionTransformer final : public ddprun::Model {
 public:
  explicit VisionTransformer(ddprun::Options& options) {
    const auto size = options.choose("size", "base", {"tiny", "small", "base", "large", "huge"},
                                     "depth, heads, width and mlp: base for vit_b_16, large for vit_l_16");
    patch_ = options.get<int64_t>("patch", 16, "pixels of a patch's side; it divides the image's", {.min = 1});
    const auto& named = kSizes.at(size);
    form_.depth = options.get<int64_t>("depth", named.depth, "blocks; by default those of size", {.min = 1});
    form_.heads = options.get<int64_t>("heads", named.heads, "attention heads in each; so too", {.min = 1});
    form_.width = options.get<int64_t>("width", named.width, "numbers for each patch; so too", {.min = 1});
    form_.mlp = options.get<int64_t>("mlp", named.mlp, "units in a block's hidden layer; so too", {.min = 1});
    form_.dropout =
        options.get<double>("dropout", 0, "probability of dropping a value in training", {.min = 0, .max = 0.99});
    form_.attention_dropout = options.get<double>(
        "attention_dropout", 0, "probability of not attending to a patch in training", {.min = 0, .max = 0.99});
    if (form_.width % form_.heads != 0)
      options.reject("heads", "expected a divisor of width, " + std::to_string(form_.width) + ", found " +
                                  std::to_string(form_.heads));
  }

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "vit", patch_);
    const auto& shape = data.sample_shape;
    const auto width = form_.width;
    if (shape[1] % patch_ != 0 || shape[2] % patch_ != 0)
      throw ddprun::UserError(c10::str("vit cuts images into patches of ", patch_, " x ", patch_,
                                       ", but the dataset's are ", shape[1], " x ", shape[2],
                                       "; set model.patch to a divisor of both sides"));
    proj_ = register_module("conv_proj",
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(shape[0], width, patch_).stride(patch_)));
    ddprun::fill_truncated_normal(proj_->weight, 1 / std::sqrt(static_cast<double>(shape[0] * patch_ * patch_)));
    torch::nn::init::zeros_(proj_->bias);
    class_token_ = register_parameter("class_token", torch::zeros({1, 1, width}));
    const auto positions = 1 + (shape[1] / patch_) * (shape[2] / patch_);
    encoder_ = register_module("encoder", std::make_shared<Encoder>(form_, positions));
    const auto heads = register_module("heads", std::make_shared<torch::nn::Module>("heads"));
    head_ = heads->register_module("head", torch::nn::Linear(width, data.classes));
    torch::nn::init::zeros_(head_->weight);
    torch::nn::init::zeros_(head_->bias);
  }

  at::Tensor forward(const at::Tensor& input) override {
    const auto patches = proj_(input).flatten(2).transpose(1, 2);  // [B, T - 1, W]
    const auto token = class_token_.expand_as(patches.slice(1, 0, 1));
    const auto x = encoder_->forward(at::cat({token, patches}, 1));
    return head_(x.select(1, 0));  // [B, classes]
  }

 private:
  Form form_;
  int64_t patch_ = 0;
  torch::nn::Conv2d proj_{nullptr};
  at::Tensor class_token_;
  std::shared_ptr<Encoder> encoder_;
  torch::nn::Linear head_{nullptr};
};

}  // namespace

DDPRUN_MODEL(VisionTransformer, "vit", "vision transformer: ViT-B/16 by default, other sizes and patches by options")
