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

struct Formula {
  const char* name;
  ScheduleConfig config;
  std::vector<std::pair<int64_t, double>> rates;  // of steps
};
void PrintTo(const Formula& formula, std::ostream* out) { *out << formula.name; }  // GoogleTest's name for this

using enum ScheduleKind;
const std::vector<Formula> kFormulas{
    {"ConstantIsTheOptimizersOwnRate", {}, {{0, 0.1}, {99, 0.1}}},
    {"StepFallsEachTimeTheIntervalHasPassed",
     {.kind = kStep, .every = {.epochs = 3}, .gamma = 0.5},
     {{29, 0.1}, {30, 0.05}, {99, 0.0125}}},
    {"MultistepFallsAtItsMilestones",
     {.kind = kMultistep, .gamma = 0.1, .milestones = {{.epochs = 2}, {.steps = 55}}},
     {{19, 0.1}, {20, 0.01}, {55, 0.001}}},
    {"PerEpochItMovesAtEpochsEndsAlone",
     {.kind = kExponential, .per_epoch = true, .gamma = 0.9},
     {{9, 0.1}, {10, 0.09}, {19, 0.09}, {20, 0.081}}},
    {"CosineEndsAtItsLastRateAndStaysThere",
     {.kind = kCosine, .end_lr = 0.02},
     {{0, 0.1}, {50, 0.06}, {100, 0.02}, {1000, 0.02}}},
    {"LineEndsAtItsLastRateAndStaysThere",
     {.kind = kLinear, .end_lr = 0.02},
     {{0, 0.1}, {50, 0.06}, {100, 0.02}, {1000, 0.02}}},
    {"WarmUpRisesAlongALineAndTheCosineBeginsAfterIt",
     {.kind = kCosine, .warmup = {.epochs = 2}, .warmup_from = 0.1},
     {{0, 0.01}, {10, 0.055}, {20, 0.1}, {60, 0.05}}},
    {"OneCycleRisesToTheRateAndEndsFarBelowItsBeginning",
     {.kind = kOneCycle},
     {{0, 0.1 / 25}, {29, 0.1}, {99, 0.1 / 25 / 1e4}}},
};

class ScheduleFormula : public ::testing::TestWithParam<Formula> {};

TEST_P(ScheduleFormula, GivesTheRates) {
  for (const auto& [step, expected] : GetParam().rates)
    EXPECT_NEAR(schedule(GetParam().config).lr(0.1, step), expected, 1e-8 * expected) << step;
}

INSTANTIATE_TEST_SUITE_P(Kinds, ScheduleFormula, ::testing::ValuesIn(kFormulas),
                         [](const auto& test) { return std::string(test.param.name); });

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

TEST(Schedule, PlateauContinuesFromItsState) {
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
