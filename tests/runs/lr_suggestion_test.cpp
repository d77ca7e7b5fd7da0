// SPDX-License-Identifier: MIT
#include "runs/lr_suggestion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

constexpr double kFastest = 1e-2, kDiverges = 1;

// The loss falls from 2.3 to 0.3, fastest at kFastest, and explodes above kDiverges.
double loss_at(double lr) {
  const double fallen = 1 / (1 + std::exp(-(std::log10(lr) - std::log10(kFastest)) / 0.3));
  return 2.3 - 2 * fallen + (lr > kDiverges ? std::pow(lr / kDiverges, 8) : 0);
}

std::vector<LossAtLr> range(int64_t steps, double to = 10) {
  std::vector<LossAtLr> points;
  for (int64_t i = 0; i < steps; ++i) {
    const double lr = 1e-7 * std::pow(to / 1e-7, static_cast<double>(i) / static_cast<double>(steps - 1));
    points.push_back({lr, loss_at(lr)});
  }
  return points;
}

void add_noise(std::vector<LossAtLr>& points, double deviation) {
  std::mt19937 generator(7);  // NOLINT: the same draws each time
  std::normal_distribution<double> noise(0, deviation);
  for (auto& point : points) point.loss += noise(generator);
}

// How many decades the suggestion is away from where the loss falls fastest.
double error(const std::vector<LossAtLr>& points) {
  const auto found = suggest_lr(points);
  return found.lr ? std::abs(std::log10(*found.lr / kFastest)) : std::numeric_limits<double>::infinity();
}

TEST(LrSuggestion, IsWhereTheLossFallsFastest) {
  for (const int64_t steps : {30, 100, 1000, 10'000}) EXPECT_LT(error(range(steps)), 0.15) << steps;
  const auto found = suggest_lr(range(100));
  EXPECT_NEAR(std::log10(found.lowest_lr), std::log10(kDiverges), 0.7);
  EXPECT_EQ(found.remark, "");
}

TEST(LrSuggestion, HoldsUnderNoise) {
  for (const int64_t steps : {100, 1000}) {
    auto points = range(steps);
    add_noise(points, 0.2);
    EXPECT_LT(error(points), 0.3) << steps;
  }
}

TEST(LrSuggestion, IsNotMovedByHowFarTheLossExplodes) {
  auto points = range(100);
  const auto found = suggest_lr(points);
  for (auto& point : points) {
    if (point.loss > 1e3) point.loss = 1e30;
  }
  points.back().loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(suggest_lr(points).lr, found.lr);
  EXPECT_EQ(suggest_lr(points).lowest_lr, found.lowest_lr);
}

TEST(LrSuggestion, IsTheSameForALossBelowZero) {
  auto points = range(100);
  for (auto& point : points) point.loss -= 5;
  EXPECT_EQ(suggest_lr(points).lr, suggest_lr(range(100)).lr);
}

TEST(LrSuggestion, SaysThatTheLossStillFalls) {
  const auto found = suggest_lr(range(100, 0.1));
  EXPECT_TRUE(found.lr);
  EXPECT_THAT(found.remark, HasSubstr("a larger --to"));
}

TEST(LrSuggestion, IsNotMadeOfNoiseOrARisingOrTooShortCurve) {
  auto flat = range(100, 1e-5);
  add_noise(flat, 0.1);
  EXPECT_FALSE(suggest_lr(flat).lr);
  EXPECT_THAT(suggest_lr(flat).remark, HasSubstr("by more than its noise"));
  auto rising = range(100);
  for (auto& point : rising) point.loss = 1 + point.lr;
  EXPECT_FALSE(suggest_lr(rising).lr);
  EXPECT_THAT(suggest_lr(rising).remark, HasSubstr("a smaller lr (--from)"));
  EXPECT_FALSE(suggest_lr(range(9)).lr);
  EXPECT_THAT(suggest_lr(range(9)).remark, HasSubstr("only 9 steps"));
  EXPECT_FALSE(suggest_lr(std::vector<LossAtLr>(50, {.lr = -1, .loss = 1})).lr);
}

TEST(LrSuggestion, IsOptimizerLrAlsoIfTheScheduleScalesIt) {
  auto config = Value::map(), schedule = Value::map();
  schedule.set("name", Value::scalar("range_test"));
  schedule.set("from", Value::scalar("1e-7"));
  config.set("schedule", schedule);
  Curves curves{.curves = {{"train", "loss", {}}, {"train", "lr", {}}}};
  for (const auto& [lr, loss] : range(100)) {
    const auto step = static_cast<int64_t>(curves.curves[0].points.size()) + 1;
    curves.curves[0].points.push_back({.step = step, .value = loss});
    curves.curves[1].points.push_back({.step = step, .value = 4 * lr});
  }
  const auto found = suggest_lr(config, curves);
  ASSERT_TRUE(found && found->lr);
  EXPECT_EQ(lr_text(*found->lr), lr_text(*suggest_lr(range(100)).lr));
  config.find("schedule")->set("name", Value::scalar("cosine"));
  EXPECT_FALSE(suggest_lr(config, curves));
}

}  // namespace
}  // namespace ddprun
