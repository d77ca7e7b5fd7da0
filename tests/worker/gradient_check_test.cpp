// SPDX-License-Identifier: MIT
#include "support/toy.h"
#include "worker/sanity_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using testing::MeanCrossEntropy;
using testing::ToyDataset;
using testing::ToyModel;

std::vector<check::GradientFinding> findings_of(Model& model) {
  const std::vector<int64_t> indices{0, 1, 2, 3};
  return check_gradients(model, MeanCrossEntropy(), ToyDataset(4, 0).get(Split::kTrain, indices), 20, 1);
}

// Doubles the gradient of what passes through it, as a slip in a hand-written backward would.
struct WrongBackward : torch::autograd::Function<WrongBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

class Wrong : public ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return torch::linear(
        WrongBackward::apply(torch::tanh(named_children()["hidden"]->as<torch::nn::Linear>()->forward(input))),
        named_parameters()["output.weight"], named_parameters()["output.bias"]);
  }
};

class WithNoise : public ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    ToyModel::prepare(data);
    norm_ = register_module("norm", torch::nn::BatchNorm1d(8));
    unused_ = register_parameter("unused", torch::ones({2}));
  }
  at::Tensor forward(const at::Tensor& input) override {
    return ToyModel::forward(torch::dropout(norm_(input), 0.3, is_training()));
  }

 private:
  torch::nn::BatchNorm1d norm_{nullptr};
  at::Tensor unused_;
};

template <class Kind>
std::shared_ptr<Kind> prepared() {
  torch::manual_seed(3);
  auto model = std::make_shared<Kind>();
  model->prepare({.sample_shape = {8}, .classes = 3});
  return model;
}

TEST(GradientCheck, AgreesWithARightBackward) {
  for (const auto& finding : findings_of(*prepared<ToyModel>())) {
    EXPECT_FALSE(finding.wrong()) << finding.parameter << " " << finding.largest_error;
    EXPECT_GT(finding.checked, 0);
  }
}

TEST(GradientCheck, NamesTheParametersBehindAWrongBackward) {
  const auto findings = findings_of(*prepared<Wrong>());
  for (const auto& finding : findings) {
    EXPECT_EQ(finding.wrong(), finding.parameter.starts_with("hidden")) << finding.parameter;
  }
  EXPECT_THAT(gradient_report(findings), HasSubstr("does not agree with finite differences in 2 parameters"));
}

TEST(GradientCheck, DropoutAndRunningStatisticsDoNotDisturbIt) {
  const auto model = prepared<WithNoise>();
  const auto findings = findings_of(*model);
  for (const auto& finding : findings) EXPECT_FALSE(finding.wrong()) << finding.parameter << finding.largest_error;
  EXPECT_TRUE(torch::equal(model->named_buffers()["norm.running_mean"], torch::zeros({8}, at::kDouble)));
  EXPECT_THAT(gradient_report(findings), HasSubstr("1 unused"));
}

}  // namespace
}  // namespace ddprun
