// SPDX-License-Identifier: MIT
#include "train/weight_average.h"

#include <ddprun/error.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

std::vector<NamedParameter> parameters() { return {{"w", torch::tensor({1.0F, 2.0F}).requires_grad_()}}; }

void set(const std::vector<NamedParameter>& parameters, float value) {
  const torch::NoGradGuard no_gradients;
  parameters[0].value.fill_(value);
}

TEST(WeightAverage, BeginsWithTheFirstWeightsAndMovesByItsDecay) {
  const auto weights = parameters();
  WeightAverage average(weights, 0.9);
  EXPECT_TRUE(average.state().empty());
  set(weights, 1);
  average.update({});
  set(weights, 2);
  average.update({});
  EXPECT_TRUE(torch::allclose(average.state().at("w"), torch::full({2}, 1.1F)));
}

// Recorded steps write to where it was when they were recorded.
TEST(WeightAverage, StaysInItsPlaceWhenItIsExchanged) {
  const auto weights = parameters();
  WeightAverage average(weights, 0.5);
  average.update({});
  const auto* place = average.state().at("w").const_data_ptr();
  for (int i = 0; i < 2; ++i) average.exchange();
  EXPECT_EQ(average.state().at("w").const_data_ptr(), place);
}

TEST(WeightAverage, AStepThatOverflowedDoesNotMoveIt) {
  const auto weights = parameters();
  WeightAverage average(weights, 0.5);
  average.update(torch::zeros({}));
  set(weights, 9);
  average.update(torch::ones({}));
  EXPECT_TRUE(torch::equal(average.state().at("w"), torch::tensor({1.0F, 2.0F})));
  average.update(torch::zeros({}));
  EXPECT_TRUE(torch::allclose(average.state().at("w"), torch::tensor({5.0F, 5.5F})));
}

TEST(WeightAverage, BeginsWithTheFirstStepThatCounts) {
  const auto weights = parameters();
  WeightAverage average(weights, 0.5);
  average.update(torch::ones({}));
  EXPECT_TRUE(average.state().empty());
  set(weights, 9);
  average.update(torch::zeros({}));
  EXPECT_TRUE(torch::equal(average.state().at("w"), torch::full({2}, 9.0F)));
}

TEST(WeightAverage, ExchangedTwiceTheWeightsHaveTheirBitsAgain) {
  const auto weights = parameters();
  WeightAverage average(weights, 0.3);
  average.update({});
  set(weights, 0.1F);
  average.update({});
  const auto before = weights[0].value.detach().clone(), mean = average.state().at("w").clone();
  average.exchange();
  EXPECT_TRUE(torch::equal(weights[0].value, mean));
  average.exchange();
  EXPECT_TRUE(torch::equal(weights[0].value, before));
  EXPECT_TRUE(torch::equal(average.state().at("w"), mean));
}

TEST(WeightAverage, RefusesAStateOfAnotherModel) {
  WeightAverage average(parameters(), 0.5);
  EXPECT_THROW(average.load_state({{"v", torch::zeros({2})}}), UserError);
  EXPECT_THROW(average.load_state({{"w", torch::zeros({3})}}), UserError);
}

}  // namespace
}  // namespace ddprun
