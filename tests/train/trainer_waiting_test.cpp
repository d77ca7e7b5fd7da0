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
using testing::TempFolder;
using testing::ToyRun;
using testing::train_toy;

// Keeps one sample back, from whichever rank asks for it, until the test is over.
struct KeptBack {
  int64_t sample = 0;
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  std::atomic<bool> is_wanted = false;

  ~KeptBack() { gate.set_value(); }
};

class SlowDataset final : public testing::ToyDataset {
 public:
  SlowDataset(int64_t train, int64_t val, KeptBack& kept) : ToyDataset(train, val), kept_(kept), opened_(kept.opened) {}

  Batch get(Split split, std::span<const int64_t> indices) const override {
    if (split == Split::kTrain && std::ranges::find(indices, kept_.sample) != indices.end()) {
      const auto opened = opened_;
      kept_.is_wanted = true;
      opened.wait();
    }
    return ToyDataset::get(split, indices);
  }

 private:
  KeptBack& kept_;
  std::shared_future<void> opened_;
};

ToyRun one_epoch(const TempFolder& folder, int64_t ranks) {
  ToyRun run{.ranks = ranks, .folder = folder.path()};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 1, .global_batch = 12, .log_every = 4};
  run.experiment.checkpoint.keep = 9;
  return run;
}

// Trains without this sample, asked to end once all ranks wait for it after `steps`: the ranks are asked once after
// each step, and from then on as long as they wait.
testing::ToyResult stopped(ToyRun run, KeptBack& kept, int64_t steps) {
  std::array<std::atomic<int>, 2> asked{};
  run.make_dataset = [&kept](int64_t train, int64_t val) { return std::make_shared<SlowDataset>(train, val, kept); };
  run.stop = [&](int64_t rank, int64_t step) { return step == steps && kept.is_wanted && ++asked[rank] > 1; };
  return train_toy(run);
}

class TrainerWaiting : public ::testing::TestWithParam<int64_t> {};

TEST_P(TrainerWaiting, SavesItsLastStepAndGoesOnFromThere) {
  const TempFolder whole, folder;
  auto run = one_epoch(folder, GetParam());
  const auto order =
      training_order(testing::ToyDataset(run.train_samples, run.val_samples), run.experiment.trainer, 42).of(0);
  // Before the first step two ranks ask each other for certain, one rank always.
  const int64_t steps = GetParam() == 1 ? 4 : 0;
  KeptBack kept{.sample = order[static_cast<size_t>(12 * steps)]};
  const auto first = stopped(run, kept, steps);
  EXPECT_EQ(first.end.status, "preempted");
  EXPECT_EQ(first.end.steps, steps);
  run.resume_from = first.end.checkpoint;
  EXPECT_TRUE(same_bits(train_toy(run).weights[0], train_toy(one_epoch(whole, GetParam())).weights[0]));
}

INSTANTIATE_TEST_SUITE_P(Ranks, TrainerWaiting, ::testing::Values(1, 2));

}  // namespace
}  // namespace ddprun
