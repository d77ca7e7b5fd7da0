// SPDX-License-Identifier: MIT
#include "step/ema.h"

#include <ddprun/error.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace ddprun {
namespace {

std::vector<NamedParameter> one_parameter() { return {{"w", torch::tensor({1.0F, 2.0F}).requires_grad_()}}; }

void set(const std::vector<NamedParameter>& parameters, float value) {
  const torch::NoGradGuard no_gradients;
  for (const auto& parameter : parameters) parameter.value.fill_(value);
}

TEST(Ema, BeginsWithTheFirstWeightsAndMovesByItsDecay) {
  const auto weights = one_parameter();
  Ema average(weights, 0.9);
  EXPECT_TRUE(average.state().empty());
  set(weights, 1);
  average.update({});
  set(weights, 2);
  average.update({});
  EXPECT_TRUE(torch::allclose(average.state().at("w"), torch::full({2}, 1.1F)));
}

TEST(Ema, OfNoParametersBeginsToo) {
  Ema average({}, 0.9);
  EXPECT_FALSE(average.has_begun());
  for (int i = 0; i < 3; ++i) average.update({});
  EXPECT_TRUE(average.has_begun());
  EXPECT_TRUE(average.state().empty());
}

// Recorded steps write to where it was when they were recorded.
TEST(Ema, StaysInItsPlaceWhenItIsExchanged) {
  const auto weights = one_parameter();
  Ema average(weights, 0.5);
  average.update({});
  const auto* place = average.state().at("w").const_data_ptr();
  for (int i = 0; i < 2; ++i) average.exchange();
  EXPECT_EQ(average.state().at("w").const_data_ptr(), place);
}

TEST(Ema, AStepThatOverflowedDoesNotMoveIt) {
  const auto weights = one_parameter();
  Ema average(weights, 0.5);
  average.update(torch::zeros({}));
  set(weights, 9);
  average.update(torch::ones({}));
  EXPECT_TRUE(torch::equal(average.state().at("w"), torch::tensor({1.0F, 2.0F})));
  average.update(torch::zeros({}));
  EXPECT_TRUE(torch::allclose(average.state().at("w"), torch::tensor({5.0F, 5.5F})));
}

TEST(Ema, BeginsWithTheFirstStepThatCounts) {
  const auto weights = one_parameter();
  Ema average(weights, 0.5);
  average.update(torch::ones({}));
  EXPECT_TRUE(average.state().empty());
  set(weights, 9);
  average.update(torch::zeros({}));
  EXPECT_TRUE(torch::equal(average.state().at("w"), torch::full({2}, 9.0F)));
}

TEST(Ema, ExchangedTwiceTheWeightsHaveTheirBitsAgain) {
  const auto weights = one_parameter();
  Ema average(weights, 0.3);
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

// 16-bit weights, as trainer.precision bf16_pure has them.
std::vector<NamedParameter> narrow_parameters() {
  return {{"w", torch::ones({2}, at::kBFloat16).requires_grad_()}, {"wide", torch::ones({2}).requires_grad_()}};
}

// A thousandth of the way is less than the distance of two numbers in bfloat16.
TEST(Ema, OfNarrowWeightsMovesBySmallSteps) {
  for (const bool may_overflow : {false, true}) {
    const auto weights = narrow_parameters();
    Ema average(weights, 0.999);
    const auto overflow = may_overflow ? torch::zeros({}) : at::Tensor();
    average.update(overflow);
    set(weights, 2);
    for (int step = 0; step < 100; ++step) average.update(overflow);
    const auto expected = torch::full({2}, 2 - std::pow(0.999, 100));
    EXPECT_TRUE(torch::allclose(average.state().at("w"), expected.to(at::kFloat), 1e-5));
  }
}

TEST(Ema, OfNarrowWeightsIsExchangedAndSavedToTheBit) {
  const auto weights = narrow_parameters();
  Ema average(weights, 0.999), resumed(weights, 0.999);
  average.update({});
  set(weights, 2);
  average.update({});
  const auto mean = average.state().at("w").clone();
  average.exchange();
  EXPECT_TRUE(torch::equal(weights[0].value, mean.to(at::kBFloat16)));
  average.exchange();
  EXPECT_TRUE(torch::equal(weights[0].value, torch::full({2}, 2, at::kBFloat16)));
  EXPECT_TRUE(torch::equal(average.state().at("w"), mean));
  resumed.load_state(average.state());
  EXPECT_TRUE(torch::equal(resumed.state().at("w"), mean));
}

// The same bits as without overflows: a step that is left out leaves no trace.
TEST(Ema, LooksForOverflowsWithoutChangingABit) {
  torch::manual_seed(1);
  const auto some = [] { return torch::randn({1000}); };
  const std::vector<NamedParameter> weights{{"w", some().requires_grad_()}};
  for (const double decay : {0.3, 0.999}) {
    Ema plain(weights, decay), looking(weights, decay);
    for (int step = 0; step < 5; ++step) {
      weights[0].value.set_data(some());
      plain.update({});
      looking.update(torch::zeros({}));
      if (step == 2) looking.update(torch::ones({}));
    }
    EXPECT_TRUE(torch::equal(looking.state().at("w"), plain.state().at("w"))) << decay;
  }
}

TEST(Ema, RefusesAStateOfAnotherModel) {
  Ema average(one_parameter(), 0.5);
  EXPECT_THROW(average.load_state({{"v", torch::zeros({2})}}), UserError);
  EXPECT_THROW(average.load_state({{"w", torch::zeros({3})}}), UserError);
}

}  // namespace
}  // namespace ddprun
