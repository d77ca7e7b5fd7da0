// SPDX-License-Identifier: MIT
// A small decoder-only transformer that predicts the next symbol of a text: an example of a model with its own loss and
// metrics in place of the experiment's `objective:`.
//
// Causal attention follows Vaswani et al., "Attention Is All You Need" (2017). Learned positions, GELU, norms before
// each part and after the last, and weights drawn with a deviation of 0.02, smaller where a part adds to the residual
// stream, follow Radford et al., "Language Models are Unsupervised Multitask Learners" (2019). One matrix both reads
// and predicts symbols: Press, Wolf, "Using the Output Embedding to Improve Language Models" (2017).
//
// Shapes: B = samples, T = symbols per sample, V = vocabulary size.
#include <ddprun/arriving_weights.h>
#include <ddprun/dropout.h>
#include <ddprun/error.h>
#include <ddprun/model.h>
#include <ddprun/recompute.h>

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

namespace {

constexpr double kDeviation = 0.02;  // of initial weights

struct Form {
  int64_t layers = 0, heads = 0, width = 0;
  double dropout = 0;
};

// Runs as one operation, bias included; torch::nn::Linear makes two of it if the input has more than two dimensions.
at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  return at::linear(x, layer->weight, layer->bias);
}

// Attention and a feed-forward part, each added to its input.
class Block final : public torch::nn::Module {
 public:
  explicit Block(const Form& form) : form_(form) {
    norm1_ = register_module("norm1", torch::nn::LayerNorm(std::vector{form.width}));
    attention_ = register_module("attention", torch::nn::Linear(form.width, 3 * form.width));
    attended_ = register_module("attended", torch::nn::Linear(form.width, form.width));
    norm2_ = register_module("norm2", torch::nn::LayerNorm(std::vector{form.width}));
    hidden_ = register_module("hidden", torch::nn::Linear(form.width, 4 * form.width));
    output_ = register_module("output", torch::nn::Linear(4 * form.width, form.width));
    const double added = kDeviation / std::sqrt(2.0 * static_cast<double>(form.layers));
    for (auto& linear : {attention_, hidden_}) start(linear, kDeviation);
    for (auto& linear : {attended_, output_}) start(linear, added);
  }

  // `mask` is undefined where each position attends to itself and to all before it.
  at::Tensor forward(const at::Tensor& input, const at::Tensor& mask) {
    const auto x = input + dropped(attend(norm1_(input), mask));
    return x + dropped(linear(output_, at::gelu(linear(hidden_, norm2_(x)))));
  }

 private:
  static void start(const torch::nn::Linear& linear, double deviation) {
    torch::nn::init::normal_(linear->weight, 0, deviation);
    torch::nn::init::zeros_(linear->bias);
  }

  at::Tensor attend(const at::Tensor& x, const at::Tensor& mask) {
    const auto parts =
        linear(attention_, x).unflatten(2, {3, form_.heads, form_.width / form_.heads}).permute({2, 0, 3, 1, 4});
    const auto given = mask.defined() ? std::optional(mask) : std::nullopt;
    const auto mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], given,
                                                        is_training() ? form_.dropout : 0, /*is_causal=*/!given);
    return linear(attended_, mixed.transpose(1, 2).flatten(2));  // [B, heads, T, ...] to [B, T, width]
  }

  at::Tensor dropped(const at::Tensor& x) { return ddprun::dropout(x, form_.dropout, is_training()); }

  const Form form_;
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  torch::nn::Linear attention_{nullptr}, attended_{nullptr}, hidden_{nullptr}, output_{nullptr};
};

class Transformer final : public ddprun::Model {
 public:
  explicit Transformer(ddprun::Options& options) {
    form_.layers = options.get<int64_t>("layers", 2, "blocks of attention and perceptron", {.min = 1, .max = 1000});
    form_.heads = options.get<int64_t>("heads", 4, "attention heads in each", {.min = 1, .max = 1024});
    form_.width = options.get<int64_t>("width", 64, "numbers for each symbol", {.min = 1, .max = 1 << 16});
    form_.dropout =
        options.get<double>("dropout", 0, "probability of dropping a value in training", {.min = 0, .max = 0.99});
    if (form_.width % form_.heads != 0)
      options.reject("heads", "expected a divisor of width, " + std::to_string(form_.width) + ", found " +
                                  std::to_string(form_.heads));
  }

  void prepare(const ddprun::DataSpec& data) override {
    if (data.sample_shape.size() != 1 || data.sample_shape[0] < 1 || data.classes < 2) {
      refuse("samples of shape ", at::IntArrayRef(data.sample_shape), " in ", data.classes, " classes");
    }
    context_ = data.sample_shape[0];
    symbols_ = register_module("symbols", torch::nn::Embedding(data.classes, form_.width));
    positions_ = register_module("positions", torch::nn::Embedding(context_, form_.width));
    for (auto& embedding : {symbols_, positions_}) torch::nn::init::normal_(embedding->weight, 0, kDeviation);
    const auto blocks = register_module("blocks", torch::nn::ModuleList());
    for (int64_t layer = 0; layer < form_.layers; ++layer) {
      blocks_.push_back(std::make_shared<Block>(form_));
      blocks->push_back(blocks_.back());
    }
    norm_ = register_module("norm", torch::nn::LayerNorm(std::vector{form_.width}));
  }

  // Maps [B, T] int64, T at most the data's, to [B, T, V] logits of the next symbol.
  at::Tensor forward(const at::Tensor& input) override { return logits(input, {}); }

  // Keeps documents apart where the batch says which symbol is of which.
  at::Tensor predict(const ddprun::Batch& batch) override {
    return logits(batch.input, batch.extras.contains("document_ids") ? &batch : nullptr);
  }

  bool waits_for_weights() const override { return true; }

  // Averages over the symbols of the batch that count.
  ddprun::Step step(const ddprun::Batch& batch, const ddprun::Objective&) override {
    if (batch.target.sizes() != batch.input.sizes() || batch.target.scalar_type() != at::kLong) {
      refuse(batch.target.scalar_type(), " targets of shape ", batch.target.sizes(), " for samples of shape ",
             batch.input.sizes());
    }
    const auto logits = predict(batch).flatten(0, 1);
    const auto target = batch.target.flatten();
    const auto counted = ddprun::count_classes(target);
    const auto loss = ddprun::cross_entropy(logits, target);
    return {
        .loss = loss,
        .metrics = {{.name = "perplexity",
                     .sum = loss.detach().to(at::kDouble) * counted,
                     .exponential = true,
                     .counted = counted},
                    {.name = "accuracy", .sum = ddprun::count_correct(logits.detach(), target), .counted = counted}},
        .counted = counted};
  }

 private:
  // `documents` has document_ids and position_ids; null: each sample is one.
  at::Tensor logits(const at::Tensor& input, const ddprun::Batch* documents) {
    if (input.dim() != 2 || input.scalar_type() != at::kLong || input.size(1) > context_) {
      refuse(input.scalar_type(), " samples of shape ", input.sizes().slice(1));
    }
    ddprun::wait_for_weights(*symbols_);
    ddprun::wait_for_weights(*positions_);
    const auto places =
        documents ? positions_(documents->extra("position_ids")) : positions_->weight.slice(0, 0, input.size(1));
    const auto mask = documents ? mask_of(documents->extra("document_ids")) : at::Tensor();
    auto x = ddprun::dropout(symbols_(input) + places, form_.dropout, is_training());
    for (const auto& block : blocks_) {
      ddprun::wait_for_weights(*block);
      x = ddprun::recomputed(*block, [block, mask](const at::Tensor& given) { return block->forward(given, mask); }, x);
    }
    ddprun::wait_for_weights(*norm_);
    return at::linear(norm_(x), symbols_->weight);
  }

  // Returns [B, 1, T, T]: whether a position attends to another, of its own document and not behind it.
  static at::Tensor mask_of(const at::Tensor& documents) {
    return documents.unsqueeze(2).eq(documents.unsqueeze(1)).tril().unsqueeze(1);
  }

  template <class... Found>
  [[noreturn]] void refuse(const Found&... found) const {
    std::ostringstream text;
    text << "transformer expects texts, [B, T] int64 symbols";
    if (context_ > 0) text << " with T up to " << context_;
    text << ", and for each the one after it; the dataset has ";
    (text << ... << found);
    throw ddprun::UserError(text.str() + "; take the dataset text, or one like it");
  }

  Form form_;
  int64_t context_ = 0;  // 0: not prepared yet
  torch::nn::Embedding symbols_{nullptr}, positions_{nullptr};
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
};

}  // namespace

DDPRUN_MODEL(Transformer, "transformer", "small causal transformer for texts, with a loss of its own: no objective")
