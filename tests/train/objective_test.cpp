// SPDX-License-Identifier: MIT
#include "train/objective.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Objective> objective(const std::string& name, Value values = {}) {
  Options options(std::move(values), "objective");
  return make_objective(name, options);
}

TEST(Objective, CrossEntropyIsTorchsWithLabelSmoothing) {
  auto values = Value::map();
  values.set("label_smoothing", Value::scalar("0.1"));
  const auto logits = torch::randn({5, 4});
  const auto labels = torch::tensor({0, 1, 2, 3, 0}, at::kLong);
  const auto expected = torch::nn::functional::cross_entropy(
      logits, labels, torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(0.1));
  EXPECT_TRUE(torch::allclose(objective("cross_entropy", values)->loss(logits, labels), expected));
}

TEST(Objective, NllTakesLogProbabilities) {
  const auto logits = torch::randn({5, 4});
  const auto labels = torch::tensor({0, 1, 2, 3, 0}, at::kLong);
  EXPECT_TRUE(torch::allclose(objective("nll")->loss(torch::log_softmax(logits, 1), labels),
                              objective("cross_entropy")->loss(logits, labels)));
}

TEST(Objective, ShapesThatDoNotFitAreNamedBoth) {
  try {
    objective("cross_entropy")->loss(torch::zeros({5, 4}), torch::zeros({6}, at::kLong));
    FAIL() << "it took them";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the model returned [5, 4]"));
    EXPECT_THAT(error.what(), HasSubstr("target is [6]"));
  }
  EXPECT_THROW(objective("mse")->loss(torch::zeros({5, 1}), torch::zeros({5})), UserError);
}

TEST(Objective, AnUnknownNameIsAProblemWithTheNearestOne) {
  Options options({}, "objective");
  EXPECT_EQ(make_objective("cross_entrpy", options), nullptr);
  EXPECT_THAT(options.problems(), ElementsAre(HasSubstr("did you mean cross_entropy?")));
}

}  // namespace
}  // namespace ddprun
