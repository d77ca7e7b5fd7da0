// SPDX-License-Identifier: MIT
#include "data/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace ddprun {
namespace {

TEST(SampleOrder, AnEpochHasEverySampleOnce) {
  auto order = epoch_order(42, 3, 1000);
  std::ranges::sort(order);
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order, all);
}

TEST(SampleOrder, SeedAndEpochDecideTheOrderAndNothingElse) {
  EXPECT_EQ(epoch_order(42, 3, 1000), epoch_order(42, 3, 1000));
  EXPECT_NE(epoch_order(42, 3, 1000), epoch_order(42, 4, 1000));
  EXPECT_NE(epoch_order(42, 3, 1000), epoch_order(43, 3, 1000));
}

TEST(SampleOrder, FirstPlacesAreSpreadEvenly) {
  std::vector<int> counts(10);
  for (int epoch = 0; epoch < 5000; ++epoch) ++counts[epoch_order(1, epoch, 10).front()];
  for (const int count : counts) EXPECT_NEAR(count, 500, 120);  // 5.6 standard deviations
}

TEST(StepPlan, RanksOfAStepTileTheGlobalBatchAtEveryWorldSize) {
  const StepPlan plan(1003, 96);
  EXPECT_EQ(plan.steps_per_epoch(), 11);
  for (int64_t world = 1; world <= 5; ++world) {
    int64_t expected = 0;
    for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      for (int64_t rank = 0; rank < world; ++rank) {
        const auto slice = plan.rank_slice(step, rank, world);
        EXPECT_EQ(slice.begin, expected);
        expected = slice.end;
      }
    }
    EXPECT_EQ(expected, 1003);
  }
}

TEST(StepPlan, ALastBatchSmallerThanTheWorldLeavesRanksEmpty) {
  const StepPlan plan(10, 9);
  EXPECT_EQ(plan.global_slice(1).size(), 1);
  EXPECT_EQ(plan.rank_slice(1, 0, 3).size(), 1);
  EXPECT_EQ(plan.rank_slice(1, 1, 3).size(), 0);
}

}  // namespace
}  // namespace ddprun
