// SPDX-License-Identifier: MIT
// How long it trains, on what, and when it evaluates.
#include "features/max_time/max_time_section.h"
#include "support/toy_run.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>
#include <tuple>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using testing::error_of_training;
using testing::steps_of;
using testing::TempFolder;
using testing::ToyRun;
using testing::train_toy;

ToyRun two_epochs(int64_t ranks = 2) {
  ToyRun run{.ranks = ranks};  // 103 samples: nine steps an epoch
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 2, .global_batch = 12, .log_every = 100};
  return run;
}

TEST(TrainerLimits, EvaluatesEverySoManySteps) {
  auto run = two_epochs();
  run.experiment.trainer.eval_every = {.steps = 5};
  EXPECT_THAT(steps_of(train_toy(run).rows, "val"), ElementsAre(5, 10, 15, 18));
}

TEST(TrainerLimits, EvaluatesEverySoManyEpochsAndAtTheEnd) {
  auto run = two_epochs();
  run.experiment.trainer.max_epochs = 5;
  run.experiment.trainer.eval_every = {.epochs = 2};
  EXPECT_THAT(steps_of(train_toy(run).rows, "val"), ElementsAre(18, 36, 45));
}

TEST(TrainerLimits, AnEpochCanBeLimitedToItsFirstBatches) {
  auto run = two_epochs();
  run.experiment.trainer.train_batches = {.batches = 4};
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.steps, 8);
  EXPECT_EQ(result.end.epochs, 2);
}

TEST(TrainerLimits, TheTestCanBeLimitedToItsFirstBatches) {
  auto run = two_epochs(1);
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<testing::ToyDataset>(train, val, 50); };
  EXPECT_EQ(train_toy(run).end.test_total, 50);
  run.experiment.trainer.test_batches = {.batches = 2};
  EXPECT_EQ(train_toy(run).end.test_total, 24);
  run.val_samples = 0;  // evaluated on the whole test split, which is not the test
  EXPECT_EQ(train_toy(run).end.test_total, 24);
}

TEST(TrainerLimits, OverfittingALittleDataSucceeds) {
  auto run = two_epochs();
  run.experiment.trainer.max_epochs = 150;
  run.experiment.trainer.overfit_batches = 1;
  const auto losses = testing::values_of(train_toy(run).rows, "train", "loss");
  EXPECT_LT(losses.back(), 0.02);
}

class BrokenInEvaluation : public testing::ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    if (!is_training()) throw UserError("cannot evaluate");
    trained = true;
    return ToyModel::forward(input);
  }
  static inline bool trained = false;
};

TEST(TrainerLimits, TheSanityEvaluationFindsABrokenOneBeforeTheFirstStep) {
  auto run = two_epochs(1);
  run.make_model = [] { return std::make_shared<BrokenInEvaluation>(); };
  EXPECT_THROW(train_toy(run), UserError);
  EXPECT_FALSE(BrokenInEvaluation::trained);
}

// Takes no single sample, as BatchNorm of one number for each channel does.
class NeedsTwo : public testing::ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    if (is_training() && input.size(0) < 2) throw std::runtime_error("expected more than one value");
    return ToyModel::forward(input);
  }
};

TEST(TrainerLimits, TheSmallestPartOfABatchIsRehearsedBeforeTheFirstStep) {
  for (const auto& [samples, ranks, micro_batch] : {std::tuple(25, 1, 0), std::tuple(27, 3, 0), std::tuple(49, 3, 2)}) {
    auto run = two_epochs(ranks);
    run.train_samples = samples;
    run.experiment.trainer.micro_batch = micro_batch;
    run.make_model = [] { return std::make_shared<NeedsTwo>(); };
    std::atomic<int64_t> steps = 0;
    run.stop = [&](int64_t, int64_t step) { return steps += step > 0 ? 1 : 0, false; };
    EXPECT_THAT(error_of_training(run),
                ::testing::HasSubstr("expected more than one value. This was a rehearsal with 1 sample, the fewest "
                                     "that a worker has at once"))
        << samples << " samples on " << ranks << " ranks";
    EXPECT_EQ(steps, 0);
  }
}

TEST(TrainerLimits, LayersThatSeeTheSamplesOfAllRanksAreRehearsedWithThose) {
  auto run = two_epochs();
  run.train_samples = 26;  // one for each rank in the last batch
  run.experiment.trainer.max_steps = 2;
  run.experiment.trainer.sync_batchnorm = true;
  run.make_model = [] { return std::make_shared<NeedsTwo>(); };
  EXPECT_EQ(train_toy(run).end.steps, 2);
  run.train_samples = 25;
  EXPECT_THAT(error_of_training(run), ::testing::HasSubstr("a rehearsal with 1 sample"));
}

// Counts how often its training samples are read.
class CountedReads : public testing::ToyDataset {
 public:
  CountedReads(std::atomic<int64_t>& reads, int64_t train, int64_t val) : ToyDataset(train, val), reads_(reads) {}
  Batch get(Split split, std::span<const int64_t> indices) const override {
    if (split == Split::kTrain) ++reads_;
    return ToyDataset::get(split, indices);
  }

 private:
  std::atomic<int64_t>& reads_;
};

TEST(TrainerLimits, WhatIsTriedBeforeTheFirstStepReadsNoBatchOfItsOwn) {
  auto run = two_epochs();  // the reducer is warmed up, and the last batch rehearsed
  std::atomic<int64_t> reads = 0;
  run.experiment.trainer.prefetch_threads = 0;
  run.make_dataset = [&](int64_t train, int64_t val) { return std::make_shared<CountedReads>(reads, train, val); };
  EXPECT_EQ(train_toy(run).end.steps * run.ranks, reads);
}

// Draws in training, and counts its batches in a buffer.
class DrawingModel : public testing::ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    ToyModel::prepare(data);
    batches_ = register_buffer("batches", torch::zeros({}));
  }

  at::Tensor forward(const at::Tensor& input) override {
    if (!is_training()) return ToyModel::forward(input);
    batches_ += 1;
    return ToyModel::forward(input + torch::randn_like(input));
  }

 private:
  at::Tensor batches_;
};

TEST(TrainerLimits, TheRehearsalLeavesNoTrace) {
  auto run = two_epochs(1);
  run.make_model = [] { return std::make_shared<DrawingModel>(); };
  run.experiment.trainer.max_steps = 8;  // the ninth would be the ragged one
  const auto rehearsed = train_toy(run);
  run.experiment.trainer.train_batches = {.batches = 8};
  const auto without = train_toy(run);
  EXPECT_EQ(rehearsed.weights[0].at("batches").item<double>(), 8);
  EXPECT_TRUE(testing::same_bits(rehearsed.weights[0], without.weights[0]));
}

// The ranks' agreement is where the host waits for a GPU.
TEST(TrainerLimits, TheTimeInTrainingHasTheWaitAtTheEndOfAStep) {
  auto run = two_epochs(1);
  constexpr auto kWait = std::chrono::milliseconds(5);
  run.stop = [&](int64_t, int64_t) {
    std::this_thread::sleep_for(kWait);
    return false;
  };
  const auto end = train_toy(run).end;
  EXPECT_GE(end.train_seconds, static_cast<double>(end.steps) * std::chrono::duration<double>(kWait).count());
}

// Its evaluation is of no number from some call on.
class LostModel : public testing::ToyModel {
 public:
  explicit LostModel(int64_t good) : good_(good) {}
  at::Tensor forward(const at::Tensor& input) override {
    const auto output = ToyModel::forward(input);
    return is_training() || good_-- > 0 ? output : output * std::nan("");
  }

 private:
  int64_t good_;
};

TEST(TrainerLimits, AMonitorThatIsNanEndsTheRunByItsNameAndTheWeightsAreKept) {
  for (const auto& [good, when] : {std::pair(0, "before the first step"), std::pair(1, "after step 9")}) {
    const TempFolder folder;
    auto run = two_epochs(1);
    run.folder = folder.path();
    run.experiment.trainer.sanity_batches = 1;
    run.experiment.early_stopping = EarlyStoppingConfig{.monitor = "val/loss", .maximize = false};
    run.make_model = [good = good] { return std::make_shared<LostModel>(good); };
    EXPECT_THAT(
        error_of_training(run),
        ::testing::AllOf(::testing::HasSubstr("early_stopping.monitor: val/loss is NaN"), ::testing::HasSubstr(when)));
    EXPECT_EQ(std::filesystem::exists(folder.path() / "checkpoints" / checkpoint_name(9)), good > 0);
  }
}

TEST(TrainerLimits, TheSanityEvaluationLeavesNoTrace) {
  auto with = two_epochs(), without = two_epochs();
  with.experiment.trainer.sanity_batches = 3;
  without.experiment.trainer.sanity_batches = 0;
  const auto one = train_toy(with), other = train_toy(without);
  EXPECT_TRUE(testing::same_bits(one.weights[0], other.weights[0]));
  EXPECT_EQ(one.rows.size(), other.rows.size());
}

// Draws whenever it is called, as a denoiser and a variational autoencoder do.
class AlwaysDrawingModel : public testing::ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override { return ToyModel::forward(input + torch::randn_like(input)); }
};

TEST(TrainerLimits, WhatEvaluationsDrawIsNotTakenFromTheTraining) {
  auto often = two_epochs(1), never = two_epochs(1);
  for (auto* run : {&often, &never}) run->make_model = [] { return std::make_shared<AlwaysDrawingModel>(); };
  often.experiment.trainer.sanity_batches = 3;
  often.experiment.trainer.eval_every = {.steps = 2};
  never.experiment.trainer.sanity_batches = 0;
  EXPECT_TRUE(testing::same_bits(train_toy(often).weights[0], train_toy(never).weights[0]));
}

TEST(MaxTime, EndsTheRunOnAllRanksAtTheSameStepWithAnEvaluation) {
  auto run = two_epochs(3);
  run.experiment.trainer.max_epochs = 1'000'000;
  run.experiment.features.set(MaxTimeConfig{.seconds = 0.05});
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.status, "completed");
  EXPECT_EQ(result.end.stop_reason, "trainer.max_time is over");
  EXPECT_EQ(steps_of(result.rows, "val").back(), result.end.steps);

  auto again = run;  // a checkpoint has rank 0's time, and another rank's may have been over first
  again.resume_from = result.end.checkpoint;
  again.experiment.features.set(MaxTimeConfig{.seconds = 1e-6});
  EXPECT_EQ(train_toy(again).end.steps, result.end.steps);
}

}  // namespace
}  // namespace ddprun
