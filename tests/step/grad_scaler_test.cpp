// SPDX-License-Identifier: MIT
#include "step/grad_scaler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

namespace ddprun {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

bool step(GradScaler& scaler, const std::vector<at::Tensor>& gradients) {
  const bool overflowed = scaler.unscale(gradients).item<float>() != 0;
  scaler.update();
  scaler.count();
  return overflowed;
}

TEST(GradScaler, GivesTheGradientsOfTheUnscaledLoss) {
  GradScaler scaler({.scale = 1024}, at::kCPU, /*enabled=*/true);
  const auto weight = torch::tensor({1.0F, 2.0F}).requires_grad_();
  scaler.scaled((weight * weight).sum()).backward();
  EXPECT_FALSE(step(scaler, {weight.grad()}));
  EXPECT_TRUE(torch::equal(weight.grad(), torch::tensor({2.0F, 4.0F})));
}

TEST(GradScaler, AnyGradientThatIsNotFiniteIsAnOverflowAndHalvesTheScale) {
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    GradScaler scaler({.scale = 1024}, at::kCPU, /*enabled=*/true);
    EXPECT_TRUE(step(scaler, {torch::ones({3}), torch::tensor({1.0F, bad}), torch::ones({2}, at::kDouble)}));
    EXPECT_EQ(scaler.state().scale, 512);
    EXPECT_EQ(scaler.overflows(), 1);
  }
}

TEST(GradScaler, DoublesTheScaleAfterTwoThousandStepsWithoutOverflow) {
  GradScaler scaler({.scale = 8, .steps_since_change = 1998}, at::kCPU, /*enabled=*/true);
  step(scaler, {torch::ones({1})});
  EXPECT_EQ(scaler.state().scale, 8);
  step(scaler, {torch::ones({1})});
  EXPECT_EQ(scaler.state().scale, 16);
}

TEST(GradScaler, AnOverflowBeginsTheCountAnew) {
  GradScaler scaler({.scale = 8, .steps_since_change = 1999}, at::kCPU, /*enabled=*/true);
  step(scaler, {torch::full({1}, kInf)});
  EXPECT_EQ(scaler.state().steps_since_change, 0);
}

TEST(GradScaler, GoesOnFromItsState) {
  GradScaler one({.scale = 64}, at::kCPU, /*enabled=*/true);
  step(one, {torch::full({1}, kInf)});
  step(one, {torch::ones({1})});
  GradScaler two(one.state(), at::kCPU, /*enabled=*/true);
  EXPECT_EQ(two.state().scale, 32);
  EXPECT_EQ(two.state().steps_since_change, 1);
  EXPECT_EQ(two.overflows(), 1);
}

}  // namespace
}  // namespace ddprun
