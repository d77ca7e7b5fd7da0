// SPDX-License-Identifier: MIT
// The model of docs/plugins.md, "Several inputs": the mean of those symbols that the mask leaves.
#include <ddprun/model.h>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace {

class Bag final : public ddprun::Model {
 public:
  explicit Bag(ddprun::Options& options) : symbols_(options.get<int64_t>("symbols", 1000, "size of the vocabulary")) {}

  void prepare(const ddprun::DataSpec& data) override {
    embedding_ = register_module("embedding", torch::nn::Embedding(symbols_, 32));
    output_ = register_module("output", torch::nn::Linear(32, data.classes));
  }

  at::Tensor predict(const ddprun::Batch& batch) override {
    const auto mask = batch.extra("mask").unsqueeze(2);  // [B, T, 1]; an error names the extras that there are
    return output_((embedding_(batch.input) * mask).sum(1) / mask.sum(1).clamp_min(1));  // [B, classes]
  }

 private:
  int64_t symbols_;
  torch::nn::Embedding embedding_{nullptr};
  torch::nn::Linear output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(Bag, "bag", "mean of the symbols that a mask leaves, as a second input")
