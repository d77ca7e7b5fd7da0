// SPDX-License-Identifier: MIT
// What is done to gradients between backward and the step.
#include "step/gradients.h"

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

TEST(GradScaler, ContinuesFromItsState) {
  GradScaler one({.scale = 64}, at::kCPU, /*enabled=*/true);
  step(one, {torch::full({1}, kInf)});
  step(one, {torch::ones({1})});
  GradScaler two(one.state(), at::kCPU, /*enabled=*/true);
  EXPECT_EQ(two.state().scale, 32);
  EXPECT_EQ(two.state().steps_since_change, 1);
  EXPECT_EQ(two.overflows(), 1);
}

std::vector<at::Tensor> parameters() {
  torch::manual_seed(5);
  std::vector<at::Tensor> parameters;
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{4, 3}, {7}, {}}) {
    parameters.push_back(torch::randn(shape).requires_grad_());
    parameters.back().mutable_grad() = torch::randn(shape) * 3;
  }
  return parameters;
}

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

void expect_equal(const std::vector<at::Tensor>& mine, const std::vector<at::Tensor>& torchs) {
  for (size_t i = 0; i < mine.size(); ++i) EXPECT_TRUE(torch::allclose(mine[i].grad(), torchs[i].grad()));
}

TEST(ClipNorm, IsTorchs) {
  for (const double limit : {0.5, 1000.0}) {
    const auto mine = parameters(), torchs = parameters();
    const auto norm = total_norm(norms_of(gradients(mine)));
    clip_norm(gradients(mine), norm, limit);
    EXPECT_NEAR(norm.item<double>(), torch::nn::utils::clip_grad_norm_(torchs, limit), 1e-4);
    expect_equal(mine, torchs);
  }
}

TEST(ClipValue, IsTorchs) {
  const auto mine = parameters(), torchs = parameters();
  clip_value(gradients(mine), 0.7);
  torch::nn::utils::clip_grad_value_(torchs, 0.7);
  expect_equal(mine, torchs);
}

}  // namespace
}  // namespace ddprun
