// SPDX-License-Identifier: MIT
#include "data/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

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

// How often each sample is drawn in these epochs.
std::vector<int> counts_of(const EpochOrder& epochs, size_t samples, int64_t count) {
  std::vector<int> counts(samples);
  for (int64_t epoch = 0; epoch < count; ++epoch) {
    for (const auto sample : epochs.of(epoch)) ++counts.at(static_cast<size_t>(sample));
  }
  return counts;
}

TEST(EpochOrder, DrawsByWeight) {
  const EpochOrder epochs(42, {1, 0, 2.5, 0.5, 4});
  EXPECT_EQ(epochs.of(3).size(), 5U);
  EXPECT_EQ(epochs.of(3), EpochOrder(42, {1, 0, 2.5, 0.5, 4}).of(3));
  const auto counts = counts_of(epochs, 5, 4000);  // 20,000 draws of a sum of 8
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[0], 2500, 150);
  EXPECT_NEAR(counts[2], 6250, 150);
  EXPECT_NEAR(counts[3], 1250, 150);
  EXPECT_NEAR(counts[4], 10000, 150);
}

// 90 samples of class 0, 9 of class 1, one of class 2.
TEST(EpochOrder, GivesEachClassTheSameShareOfEveryEpoch) {
  std::vector<double> weights;
  std::vector<int64_t> classes;
  for (const auto& [label, count] : {std::pair{0, 90}, {1, 9}, {2, 1}}) {
    classes.insert(classes.end(), static_cast<size_t>(count), label);
    weights.insert(weights.end(), static_cast<size_t>(count), 1.0 / count);
  }
  const EpochOrder epochs(42, weights, classes);
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<int> drawn(3), times(100);
    for (const auto sample : epochs.of(epoch)) {
      ++drawn[static_cast<size_t>(classes[static_cast<size_t>(sample)])];
      ++times[static_cast<size_t>(sample)];
    }
    for (const int count : drawn) EXPECT_NEAR(count, 100.0 / 3, 1);
    for (size_t sample = 90; sample < 99; ++sample) EXPECT_NEAR(times[sample], 100.0 / 27, 1);
    EXPECT_LE(*std::max_element(times.begin(), times.begin() + 90), 1);
  }
  const auto all = counts_of(epochs, 100, 300);  // none of the many is left out for good
  EXPECT_GT(*std::min_element(all.begin(), all.end()), 50);
  const auto order = epochs.of(0);
  EXPECT_FALSE(std::ranges::is_sorted(order, {}, [&](int64_t sample) { return classes[static_cast<size_t>(sample)]; }));
}

TEST(StepPlan, RanksOfAStepTileTheGlobalBatchAtEveryWorldSize) {
  const StepPlan plan(1003, 96);
  EXPECT_EQ(plan.steps_per_epoch(), 11);
  for (int64_t world = 1; world <= 5; ++world) {
    int64_t expected = 0;
    for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      for (int64_t rank = 0; rank < world; ++rank) {
        const auto slice = plan.rank_slice(plan.global_slice(step), rank, world);
        EXPECT_EQ(slice.begin, expected);
        expected = slice.end;
      }
    }
    EXPECT_EQ(expected, 1003);
  }
}

TEST(StepPlan, RanksShareOutWholeShards) {
  const StepPlan plan(1003, 96, {}, /*shards=*/8);
  for (const int64_t world : {1, 2, 3, 5, 8}) {
    for (const int64_t step : {int64_t{0}, plan.steps_per_epoch() - 1}) {  // of 96 samples, and of 43
      for (int64_t rank = 0; rank < world; ++rank) {
        const auto own = part_of(8, rank, world);
        EXPECT_EQ(plan.rank_slice(plan.global_slice(step), rank, world).begin,
                  plan.shard_slice(plan.global_slice(step), own.begin).begin);
        EXPECT_EQ(plan.rank_slice(plan.global_slice(step), rank, world).end,
                  plan.shard_slice(plan.global_slice(step), own.end - 1).end);
      }
      EXPECT_EQ(plan.smallest_part(step, world, 0, false), step == 0 ? 12 : 5);
    }
  }
  const StepPlan few(13, 10, {}, /*shards=*/8);  // 3 samples in the last batch
  EXPECT_EQ(few.rank_slice(few.global_slice(1), 0, 2).size(), 3);
  EXPECT_EQ(few.rank_slice(few.global_slice(1), 1, 2).size(), 0);
}

TEST(StepPlan, TheSmallestPartIsThatOfARankOrOfAllTogether) {
  const StepPlan few(10, 9), plan(49, 24), pairs(26, 12);  // the last batches have one sample, one, and two
  EXPECT_EQ(few.rank_slice(few.global_slice(1), 0, 3).size(), 1);
  EXPECT_EQ(few.rank_slice(few.global_slice(1), 1, 3).size(), 0);
  struct Row {
    const StepPlan& plan;
    int64_t step, world, micro_batch;
    bool together;
    int64_t smallest;
  };
  for (const auto& row : {Row{plan, 0, 3, 0, false, 8},
                          {plan, 0, 3, 0, true, 24},
                          {plan, 0, 3, 3, false, 2},  // 3, 3 and 2 on each rank
                          {plan, 0, 3, 3, true, 6},
                          {plan, 2, 3, 0, false, 1},
                          {plan, 2, 3, 0, true, 1},
                          {pairs, 2, 2, 0, false, 1},
                          {pairs, 2, 2, 0, true, 2}})
    EXPECT_EQ(row.plan.smallest_part(row.step, row.world, row.micro_batch, row.together), row.smallest);
}

}  // namespace
}  // namespace ddprun
