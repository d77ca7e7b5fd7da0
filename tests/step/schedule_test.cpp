// SPDX-License-Identifier: MIT
#include "step/schedule.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ten steps per epoch, a hundred in all.
Schedule schedule(const ScheduleConfig& config, int64_t global_batch = 256) { return {config, global_batch, 10, 100}; }

double rate(const ScheduleConfig& config, int64_t step) { return schedule(config).lr(0.1, step); }

TEST(Schedule, ConstantIsTheOptimizersOwnRate) {
  EXPECT_EQ(rate({}, 0), 0.1);
  EXPECT_EQ(rate({}, 99), 0.1);
}

TEST(Schedule, StepFallsEachTimeTheIntervalHasPassed) {
  const ScheduleConfig config{.kind = ScheduleKind::kStep, .every = {.epochs = 3}, .gamma = 0.5};
  EXPECT_DOUBLE_EQ(rate(config, 29), 0.1);
  EXPECT_DOUBLE_EQ(rate(config, 30), 0.05);
  EXPECT_DOUBLE_EQ(rate(config, 99), 0.0125);
}

TEST(Schedule, MultistepFallsAtItsMilestones) {
  const ScheduleConfig config{
      .kind = ScheduleKind::kMultistep, .gamma = 0.1, .milestones = {{.epochs = 2}, {.steps = 55}}};
  EXPECT_DOUBLE_EQ(rate(config, 19), 0.1);
  EXPECT_DOUBLE_EQ(rate(config, 20), 0.01);
  EXPECT_DOUBLE_EQ(rate(config, 55), 0.001);
}

TEST(Schedule, PerEpochMovesAtEpochsEndsAlone) {
  const ScheduleConfig config{.kind = ScheduleKind::kExponential, .per_epoch = true, .gamma = 0.9};
  EXPECT_DOUBLE_EQ(rate(config, 9), 0.1);
  EXPECT_DOUBLE_EQ(rate(config, 10), 0.09);
  const ScheduleConfig cosine{.kind = ScheduleKind::kCosine, .per_epoch = true};
  EXPECT_EQ(rate(cosine, 50), rate(cosine, 59));
  EXPECT_NE(rate(cosine, 59), rate(cosine, 60));
}

TEST(Schedule, CosineAndLineEndAtTheirLastRateAndStayThere) {
  for (const auto kind : {ScheduleKind::kCosine, ScheduleKind::kLinear}) {
    const ScheduleConfig config{.kind = kind, .end_lr = 0.02};
    EXPECT_DOUBLE_EQ(rate(config, 0), 0.1);
    EXPECT_NEAR(rate(config, 50), 0.06, 1e-12);
    EXPECT_DOUBLE_EQ(rate(config, 100), 0.02);
    EXPECT_DOUBLE_EQ(rate(config, 1000), 0.02);
  }
}

TEST(Schedule, WarmUpRisesAlongALineAndTheCosineBeginsAfterIt) {
  const ScheduleConfig config{.kind = ScheduleKind::kCosine, .warmup = {.epochs = 2}, .warmup_from = 0.1};
  EXPECT_DOUBLE_EQ(rate(config, 0), 0.01);
  EXPECT_DOUBLE_EQ(rate(config, 10), 0.055);
  EXPECT_DOUBLE_EQ(rate(config, 20), 0.1);
  EXPECT_NEAR(rate(config, 60), 0.05, 1e-12);
}

TEST(Schedule, OneCycleRisesToTheRateAndEndsFarBelowItsBeginning) {
  const ScheduleConfig config{.kind = ScheduleKind::kOneCycle};
  EXPECT_DOUBLE_EQ(rate(config, 0), 0.1 / 25);
  EXPECT_DOUBLE_EQ(rate(config, 29), 0.1);
  EXPECT_NEAR(rate(config, 99), 0.1 / 25 / 1e4, 1e-15);
}

TEST(Schedule, RateScalesWithTheGlobalBatch) {
  EXPECT_DOUBLE_EQ(schedule({.lr_scaling = LrScaling::kLinear, .reference_batch = 128}, 512).lr(0.1, 0), 0.4);
  EXPECT_DOUBLE_EQ(schedule({.lr_scaling = LrScaling::kSqrt, .reference_batch = 128}, 512).lr(0.1, 0), 0.2);
}

TEST(Schedule, PlateauFallsAfterPatienceEvaluationsWithoutProgress) {
  auto plateau = schedule({.kind = ScheduleKind::kPlateau, .min_lr = 0.002, .patience = 1, .cooldown = 2});
  std::vector<double> rates;
  for (const double loss : {1.0, 0.5, 0.5, 0.49999, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6}) {
    plateau.observe(loss);
    rates.push_back(std::round(plateau.lr(0.1, 50) * 1e6) / 1e6);
  }
  EXPECT_THAT(rates, ElementsAre(0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.002, 0.002, 0.002));
}

TEST(Schedule, PlateauGoesOnFromItsState) {
  auto one = schedule({.kind = ScheduleKind::kPlateau, .patience = 2}), two = one;
  one.observe(1);
  one.observe(2);
  two.set_state(one.state());
  for (auto* each : {&one, &two}) {
    each->observe(2);
    each->observe(2);
    EXPECT_EQ(each->state().reductions, 1);
  }
}

TEST(Schedule, WarnsOfWhatTheRunNeverReaches) {
  const ScheduleConfig config{
      .kind = ScheduleKind::kMultistep, .warmup = {.steps = 500}, .milestones = {{.epochs = 5}, {.epochs = 90}}};
  EXPECT_THAT(schedule(config).warnings(),
              ElementsAre(HasSubstr("schedule.warmup: 500st goes beyond the end of the run, which has 100 steps of 10"),
                          HasSubstr("schedule.milestones: 90ep goes beyond")));
  EXPECT_THAT(schedule({.kind = ScheduleKind::kCosine, .warmup = {.epochs = 1}}).warnings(), ElementsAre());
}

TEST(Schedule, ARangeTestRaisesEachRateByTheSameFactor) {
  const ScheduleConfig config{.kind = ScheduleKind::kRangeTest, .from = 1e-6, .to = 1};
  const Schedule test(config, 256, 10, 100, /*first_lr=*/0.1);
  EXPECT_DOUBLE_EQ(test.lr(0.1, 0), 1e-6);
  EXPECT_DOUBLE_EQ(test.lr(0.1, 99), 1);
  EXPECT_NEAR(test.lr(0.1, 67) / test.lr(0.1, 66), test.lr(0.1, 8) / test.lr(0.1, 7), 1e-12);
  EXPECT_DOUBLE_EQ(test.lr(0.4, 50), 4 * test.lr(0.1, 50));
  EXPECT_THROW(Schedule(config, 256, 10, 100, /*first_lr=*/0), UserError);
}

}  // namespace
}  // namespace ddprun
