// SPDX-License-Identifier: MIT
// A linear classifier with one mistake of those that are easily made.
#include <ddprun/model.h>
#include <ddprun/recompute.h>

#include <torch/nn/modules/linear.h>

namespace {

class FlawedModel final : public ddprun::Model {
 public:
  explicit FlawedModel(ddprun::Options& options)
      : flaw_(options.get<std::string>("flaw", "", "what is wrong with the model")) {}

  void prepare(const ddprun::DataSpec& data) override {
    const auto inputs = data.sample_shape.at(0), outputs = data.classes + (flaw_ == "outputs" ? 3 : 0);
    hidden_ = torch::nn::Linear(inputs, 8);
    if (flaw_ != "unregistered") register_module("hidden", hidden_);
    output_ = register_module("output", torch::nn::Linear(8, outputs));
    if (flaw_ == "unused") register_module("spare", torch::nn::Linear(8, outputs));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const auto hidden = ddprun::recomputed(*hidden_, [this](const at::Tensor& x) { return hidden_of(x); }, input);
    const auto output = output_(flaw_ == "shapes" ? output_(input) : hidden);
    return flaw_ == "detached" ? output.detach() : output;
  }

 private:
  at::Tensor hidden_of(const at::Tensor& input) {
    return flaw_ == "counts" ? (hidden_(input) * ++calls_).exp() : hidden_(input);
  }

  std::string flaw_;
  int calls_ = 0;
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(FlawedModel, "flawed_model", "a linear classifier with a flaw on demand")
