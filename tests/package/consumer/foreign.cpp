// SPDX-License-Identifier: MIT
// A linear classifier from outside the tree.
#include <ddprun/model.h>

#include <torch/nn/modules/linear.h>

namespace {

class Foreign final : public ddprun::Model {
 public:
  explicit Foreign(ddprun::Options& options) { (void)options; }

  void prepare(const ddprun::DataSpec&) override { output_ = register_module("output", torch::nn::Linear(784, 10)); }

  at::Tensor forward(const at::Tensor& input) override { return output_(input.flatten(1)); }

 private:
  torch::nn::Linear output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(Foreign, "foreign", "a model from outside the tree")
