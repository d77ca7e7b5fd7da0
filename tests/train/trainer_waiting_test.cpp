// SPDX-License-Identifier: MIT
// A run that is asked to end while it waits for samples that do not come.
#include "data/sampling.h"
#include "support/toy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>

namespace ddprun {
namespace {

using testing::same_bits;
using testing::ToyRun;
using testing::train_toy;

// Keeps one sample back, from whichever rank asks for it, until the test is over.
struct KeptBack {
  Split split = Split::kTrain;
  int64_t sample = 0;
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  std::atomic<bool> is_wanted = false;

  ~KeptBack() { gate.set_value(); }
};

class SlowDataset final : public testing::ToyDataset {
 public:
  SlowDataset(int64_t train, int64_t val, KeptBack* kept) : ToyDataset(train, val, 20), kept_(kept) {
    if (kept) opened_ = kept->opened;
  }

  Batch get(Split split, std::span<const int64_t> indices) const override {
    if (kept_ && split == kept_->split && std::ranges::find(indices, kept_->sample) != indices.end()) {
      const auto opened = opened_;
      kept_->is_wanted = true;
      opened.wait();
    }
    return ToyDataset::get(split, indices);
  }

 private:
  KeptBack* kept_;
  std::shared_future<void> opened_;
};

ToyRun one_epoch(int64_t ranks) {
  ToyRun run{.ranks = ranks};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 1, .global_batch = 12, .eval_batch = 4, .log_every = 4};
  run.experiment.checkpoint.keep = 9;
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<SlowDataset>(train, val, nullptr); };
  return run;
}

// Trains without this sample, asked to end once a rank waits for it after `steps`: the ranks are asked once after each
// step, and from then on as long as they wait.
testing::ToyResult stopped(ToyRun run, KeptBack& kept, int64_t steps) {
  std::array<std::atomic<int>, 2> asked{};
  run.make_dataset = [&kept](int64_t train, int64_t val) { return std::make_shared<SlowDataset>(train, val, &kept); };
  run.stop = [&](int64_t rank, int64_t step) { return step == steps && kept.is_wanted && ++asked[rank] > 1; };
  return train_toy(run);
}

// Returns the result of the run that continues from there, and expects it to be that of one that was never asked.
testing::ToyResult continues(ToyRun run, const testing::ToyResult& from) {
  run.resume_from = from.end.checkpoint;
  auto second = train_toy(run);
  const auto undisturbed = train_toy(one_epoch(run.ranks));
  EXPECT_TRUE(same_bits(second.weights[0], undisturbed.weights[0]));
  EXPECT_EQ(second.end.status, "completed");
  EXPECT_EQ(second.end.metrics, undisturbed.end.metrics);
  return second;
}

class TrainerWaiting : public ::testing::TestWithParam<int64_t> {};

TEST_P(TrainerWaiting, SavesItsLastStepAndContinuesFromThere) {
  const auto run = one_epoch(GetParam());
  const auto order =
      training_order(testing::ToyDataset(run.train_samples, run.val_samples), run.experiment.trainer, 42).of(0);
  const int64_t steps = 4;  // in which nobody has waited
  KeptBack kept{.sample = order[static_cast<size_t>(12 * steps)]};
  const auto first = stopped(run, kept, steps);
  EXPECT_EQ(first.end.status, "preempted");
  EXPECT_EQ(first.end.steps, steps);
  continues(run, first);
}

INSTANTIATE_TEST_SUITE_P(Ranks, TrainerWaiting, ::testing::Values(1, 2));

// The last sample of a split: with this number of batches, all others wait for its rank in the last round.
class TrainerWaitingToEvaluate : public ::testing::TestWithParam<Split> {};

TEST_P(TrainerWaitingToEvaluate, LeavesThatToTheResumedRun) {
  const auto run = one_epoch(2);
  KeptBack kept{.split = GetParam(), .sample = GetParam() == Split::kVal ? run.val_samples - 1 : 19};
  const auto first = stopped(run, kept, 9);
  EXPECT_EQ(first.end.status, "preempted");
  EXPECT_EQ(first.end.steps, 9);
  const auto is_there = [](const auto& rows, const char* split) {
    return std::ranges::find(rows, split, &MetricRow::split) != rows.end();
  };
  EXPECT_EQ(is_there(first.rows, "val"), GetParam() == Split::kTest);
  EXPECT_FALSE(is_there(first.rows, "test"));
  const auto second = continues(run, first);
  EXPECT_EQ(is_there(second.rows, "val"), GetParam() == Split::kVal);
  EXPECT_TRUE(is_there(second.rows, "test"));
}

INSTANTIATE_TEST_SUITE_P(Splits, TrainerWaitingToEvaluate, ::testing::Values(Split::kVal, Split::kTest));

TEST(TrainerWaitingForPredictions, ContinuesWithoutThem) {
  auto run = one_epoch(1);
  run.experiment.predictions = {.batches = 1, .images_per_batch = 2};
  run.experiment.trainer.val_batches = {.batches = 1};
  KeptBack kept{.split = Split::kVal, .sample = run.val_samples - 1};
  const auto first = stopped(run, kept, 9);
  EXPECT_EQ(first.end.status, "preempted");
  EXPECT_TRUE(first.predicted.empty());
}

}  // namespace
}  // namespace ddprun
