// SPDX-License-Identifier: MIT
#include "data/loader.h"

#include "support/toy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace ddprun {
namespace {

using testing::MaskedToyDataset;
using testing::ToyDataset;

std::vector<int64_t> numbers(const at::Tensor& index) {
  return {index.const_data_ptr<int64_t>(), index.const_data_ptr<int64_t>() + index.numel()};
}

TrainLoader source(int64_t samples, int64_t batch, World world, int64_t first_step = 0) {
  TrainerConfig config{.global_batch = batch};
  return {std::make_shared<ToyDataset>(samples, 0), config, 42, world, at::kCPU, first_step};
}

TEST(TrainLoader, RanksTogetherSeeTheOneOrder) {
  const auto order = epoch_order(42, 0, 50);
  auto first = source(50, 16, {0, 2}), second = source(50, 16, {1, 2});
  std::vector<int64_t> seen;
  for (int64_t step = 0; step < first.steps_per_epoch(); ++step) {
    for (auto* rank : {&first, &second}) {
      const auto mine = numbers(rank->next().batch.index);
      seen.insert(seen.end(), mine.begin(), mine.end());
    }
  }
  EXPECT_EQ(seen, order);
}

TEST(TrainLoader, WeightsOfTheRanksAddUpToTheWorld) {
  for (int64_t step : {0, 1}) {  // 16 samples, then a ragged 5
    double sum = 0;
    for (int64_t rank = 0; rank < 3; ++rank) sum += source(21, 16, {rank, 3}, step).next().weight;
    EXPECT_DOUBLE_EQ(sum, 3.0);
  }
}

TEST(TrainLoader, ARankWithoutASampleComputesOnAnothersWithWeightZero) {
  auto last = source(17, 16, {1, 2}, 1);
  const auto item = last.next();
  EXPECT_EQ(item.weight, 0);
  EXPECT_EQ(item.batch.size(), 1);
  EXPECT_EQ(item.global_samples, 1);
}

TEST(TrainLoader, StartingAtAStepContinuesTheSameSequence) {
  auto whole = source(50, 16, {0, 1});
  std::vector<std::vector<int64_t>> batches;
  for (int step = 0; step < 10; ++step) batches.push_back(numbers(whole.next().batch.index));
  auto rest = source(50, 16, {0, 1}, 6);
  for (int step = 6; step < 10; ++step) EXPECT_EQ(numbers(rest.next().batch.index), batches[step]);
}

void expect_own_extras(const Batch& batch, const Dataset& data, Split split) {
  const auto expected = data.get(split, numbers(batch.index)).extras;
  ASSERT_EQ(batch.extras.size(), 2U);
  for (const auto& [name, extra] : expected) EXPECT_TRUE(at::equal(batch.extra(name), extra)) << name;
}

TEST(Loaders, GiveEachSampleItsOwnExtras) {
  const auto data = std::make_shared<MaskedToyDataset>(50, 23);
  for (int64_t rank = 0; rank < 3; ++rank) {
    TrainLoader train(data, {.global_batch = 16}, 42, {rank, 3}, at::kCPU, 0);
    EvalLoader val(data, Split::kVal, 5, {}, {}, {rank, 3}, at::kCPU);
    for (int step = 0; step < 5; ++step) {
      const auto batch = train.next().batch;
      expect_own_extras(batch, *data, Split::kTrain);
      expect_own_extras(part_of_batch(batch, {batch.size() - 1, batch.size()}), *data, Split::kTrain);
    }
    while (val.has_next()) expect_own_extras(val.next(), *data, Split::kVal);
  }
}

TEST(EvalLoader, EverySampleOrTheFirstBatchesOnceAtEveryWorldSizeInTheSameBatches) {
  const auto data = std::make_shared<ToyDataset>(10, 103);
  for (const auto& [limit, samples] : {std::pair{0, 103}, {3, 30}}) {
    std::vector<int64_t> all(static_cast<size_t>(samples));
    std::iota(all.begin(), all.end(), 0);
    for (int64_t world = 1; world <= 4; ++world) {
      std::vector<int64_t> seen;
      for (int64_t rank = 0; rank < world; ++rank) {
        EvalLoader mine(data, Split::kVal, 10, {.batches = limit}, {}, {rank, world}, at::kCPU);
        EXPECT_EQ(mine.rounds(), ((limit > 0 ? limit : 11) + world - 1) / world);
        while (mine.has_next()) {
          const auto batch = numbers(mine.next().index);
          EXPECT_EQ(batch.front() % 10, 0);
          seen.insert(seen.end(), batch.begin(), batch.end());
        }
      }
      std::ranges::sort(seen);
      EXPECT_EQ(seen, all);
    }
  }
}

TEST(TrainLoader, UnshuffledItKeepsTheDatasetsOrderInEveryEpoch) {
  TrainerConfig config{.global_batch = 8, .shuffle = false};
  TrainLoader mine(std::make_shared<ToyDataset>(20, 0), config, 42, {0, 1}, at::kCPU, 0);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> seen;
    for (int step = 0; step < 3; ++step) std::ranges::copy(numbers(mine.next().batch.index), std::back_inserter(seen));
    EXPECT_EQ(seen, unshuffled_order(20));
  }
}

TEST(TrainLoader, OverfittingRepeatsTheSameFirstBatches) {
  TrainerConfig config{.global_batch = 8, .overfit_batches = 2};
  TrainLoader mine(std::make_shared<ToyDataset>(100, 0), config, 42, {0, 1}, at::kCPU, 0);
  EXPECT_EQ(mine.steps_per_epoch(), 2);
  for (int step = 0; step < 6; ++step) EXPECT_EQ(numbers(mine.next().batch.index).front(), step % 2 * 8);
}

}  // namespace
}  // namespace ddprun
