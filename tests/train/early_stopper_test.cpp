// SPDX-License-Identifier: MIT
// What ends a run by its losses.
#include "train/early_stopper.h"

#include "features/range_test/range_test.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <vector>

namespace ddprun {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// After how many evaluations it stops; 0 where it never does.
int stops_after(EarlyStopper stopper, std::initializer_list<double> values) {
  int count = 0;
  for (const double value : values) {
    ++count;
    if (stopper.observe(value)) return count;
  }
  return 0;
}

TEST(EarlyStopper, WaitsForPatienceAfterTheLastImprovement) {
  const EarlyStopper stopper({.patience = 2});
  EXPECT_EQ(stops_after(stopper, {0.5, 0.6, 0.6, 0.7, 0.7, 0.6}), 6);
  EXPECT_EQ(stops_after(stopper, {0.5, 0.6, 0.6, 0.7}), 0);
}

TEST(EarlyStopper, MinimizesALoss) {
  const EarlyStopper stopper({.maximize = false, .patience = 1});
  EXPECT_EQ(stops_after(stopper, {0.5, 0.4, 0.45}), 3);
}

TEST(EarlyStopper, AnImprovementIsMoreThanMinDelta) {
  const EarlyStopper stopper({.patience = 1, .min_delta = 0.1});
  EXPECT_EQ(stops_after(stopper, {0.5, 0.59}), 2);
  EXPECT_EQ(stops_after(stopper, {0.5, 0.61, 0.72}), 0);
}

TEST(EarlyStopper, ATargetMustBeHeldForSoManyEvaluationsInARow) {
  const EarlyStopper stopper({.patience = 0, .target = 0.9, .hold = 2});
  EXPECT_EQ(stops_after(stopper, {0.91, 0.89, 0.92, 0.9}), 4);
}

TEST(EarlyStopper, WithoutPatienceItDoesNotStopForLackOfImprovement) {
  const EarlyStopper stopper({.patience = 0, .target = 0.9});
  EXPECT_EQ(stops_after(stopper, {0.5, 0.5, 0.5, 0.5}), 0);
}

TEST(EarlyStopper, OfTargetAndPatienceTheFirstStopsItAndIsSaid) {
  EarlyStopper reached({.patience = 2, .target = 0.9});
  EXPECT_EQ(stops_after(reached, {0.5, 0.5, 0.9}), 3);
  for (const double value : {0.5, 0.5, 0.9}) reached.observe(value);
  EXPECT_EQ(reached.reason(), "val/accuracy reached its target of 0.9");
  EarlyStopper stuck({.patience = 2, .target = 0.9});
  for (const double value : {0.5, 0.5, 0.5}) stuck.observe(value);
  EXPECT_EQ(stuck.reason(), "val/accuracy did not improve for 2 evaluations; its best is 0.5");
}

TEST(EarlyStopper, NanIsNeverAnImprovementNorTheTarget) {
  EXPECT_EQ(stops_after(EarlyStopper({.patience = 2}), {kNan, kNan}), 2);
  EXPECT_EQ(stops_after(EarlyStopper({.patience = 0, .target = 0.9}), {kNan}), 0);
}

TEST(EarlyStopper, ContinuesFromASavedState) {
  EarlyStopper first({.patience = 2});
  first.observe(0.7);
  first.observe(0.6);
  EarlyStopper second({.patience = 2});
  second.set_state(first.state());
  EXPECT_TRUE(second.observe(0.6));
  EXPECT_EQ(second.reason(), "val/accuracy did not improve for 2 evaluations; its best is 0.7");
}

TEST(EarlyStopper, StopsNoMoreWhereThePatienceOrTheTargetWasRaised) {
  EarlyStopper first({.patience = 2, .target = 0.9});
  for (const double value : {0.7, 0.6, 0.6}) first.observe(value);
  const auto still_stops = [](const EarlyStopper& former, EarlyStoppingConfig config, double last) {
    EarlyStopper stopper(std::move(config));
    stopper.set_state(former.state());
    return stopper.still_stops(last);
  };
  EXPECT_TRUE(still_stops(first, {.patience = 2, .target = 0.9}, 0.6));
  EXPECT_FALSE(still_stops(first, {.patience = 3, .target = 0.9}, 0.6));
  EarlyStopper reached({.patience = 0, .target = 0.9});
  reached.observe(0.95);
  EXPECT_TRUE(still_stops(reached, {.patience = 0, .target = 0.9}, 0.95));
  EXPECT_FALSE(still_stops(reached, {.patience = 0, .target = 0.99}, 0.95));
}

// After how many steps a range test ends; 0 where it never does.
int ends_after(RangeTest test, const std::vector<double>& losses) {
  for (size_t i = 0; i < losses.size(); ++i) {
    if (test.observe(losses[i])) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(RangeTest, EndsWhereTheAverageIsFourTimesItsLowest) {
  const RangeTest test;
  std::vector<double> losses(50, 1.0);
  EXPECT_EQ(ends_after(test, losses), 0);
  losses.push_back(90);
  EXPECT_EQ(ends_after(test, losses), 0);
  losses.push_back(90);
  EXPECT_EQ(ends_after(test, losses), 52);
  losses[20] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ends_after(test, losses), 21);
}

TEST(RangeTest, TakesALossBelowZeroForNoDivergence) {
  std::vector<double> losses(50, -1.0);
  losses.push_back(20);
  EXPECT_EQ(ends_after(RangeTest(), losses), 0);
}

}  // namespace
}  // namespace ddprun
