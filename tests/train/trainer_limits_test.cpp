// SPDX-License-Identifier: MIT
// How long it trains, on what, and when it evaluates.
#include "support/toy_run.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using testing::steps_of;
using testing::TempFolder;
using testing::ToyRun;
using testing::train_toy;

ToyRun two_epochs(const TempFolder& folder, int64_t ranks = 2) {
  ToyRun run{.ranks = ranks, .folder = folder.path()};  // 103 samples: nine steps an epoch
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 2, .global_batch = 12, .log_every = 100};
  return run;
}

TEST(TrainerLimits, EvaluatesEverySoManySteps) {
  const TempFolder folder;
  auto run = two_epochs(folder);
  run.experiment.trainer.eval_every = {.steps = 5};
  EXPECT_THAT(steps_of(train_toy(run).rows, "val"), ElementsAre(5, 10, 15, 18));
}

TEST(TrainerLimits, EvaluatesEverySoManyEpochsAndAtTheEnd) {
  const TempFolder folder;
  auto run = two_epochs(folder);
  run.experiment.trainer.max_epochs = 5;
  run.experiment.trainer.eval_every = {.epochs = 2};
  EXPECT_THAT(steps_of(train_toy(run).rows, "val"), ElementsAre(18, 36, 45));
}

TEST(TrainerLimits, AnEpochCanBeLimitedToItsFirstBatches) {
  const TempFolder folder;
  auto run = two_epochs(folder);
  run.experiment.trainer.train_batches = {.batches = 4};
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.steps, 8);
  EXPECT_EQ(result.end.epochs, 2);
}

class Tested : public testing::ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  int64_t size(Split split) const override { return split == Split::kTest ? 50 : ToyDataset::size(split); }
};

TEST(TrainerLimits, TheTestCanBeLimitedToItsFirstBatches) {
  const TempFolder folder;
  auto run = two_epochs(folder, 1);
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<Tested>(train, val); };
  EXPECT_EQ(train_toy(run).end.test_total, 50);
  run.experiment.trainer.test_batches = {.batches = 2};
  EXPECT_EQ(train_toy(run).end.test_total, 24);
  run.val_samples = 0;  // evaluated on the whole test split, which is not the test
  EXPECT_EQ(train_toy(run).end.test_total, 24);
}

TEST(TrainerLimits, OverfittingALittleDataSucceeds) {
  const TempFolder folder;
  auto run = two_epochs(folder);
  run.experiment.trainer.max_epochs = 150;
  run.experiment.trainer.overfit_batches = 1;
  const auto losses = testing::values_of(train_toy(run).rows, "train", "loss");
  EXPECT_LT(losses.back(), 0.02);
}

TEST(TrainerLimits, EndsWhenItsTimeIsOverOnAllRanksAtTheSameStepWithAnEvaluation) {
  const TempFolder folder;
  auto run = two_epochs(folder, 3);
  run.experiment.trainer.max_epochs = 1'000'000;
  run.experiment.trainer.max_seconds = 0.05;
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.status, "completed");
  EXPECT_EQ(result.end.stop_reason, "trainer.max_time is over");
  EXPECT_EQ(steps_of(result.rows, "val").back(), result.end.steps);

  auto again = run;
  again.resume_from = result.end.checkpoint;
  EXPECT_EQ(train_toy(again).end.steps, result.end.steps);
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
  const TempFolder folder;
  auto run = two_epochs(folder, 1);
  run.make_model = [] { return std::make_shared<BrokenInEvaluation>(); };
  EXPECT_THROW(train_toy(run), UserError);
  EXPECT_FALSE(BrokenInEvaluation::trained);
}

TEST(TrainerLimits, TheSanityEvaluationLeavesNoTrace) {
  const TempFolder folder, other_folder;
  auto with = two_epochs(folder), without = two_epochs(other_folder);
  with.experiment.trainer.sanity_batches = 3;
  without.experiment.trainer.sanity_batches = 0;
  const auto one = train_toy(with), other = train_toy(without);
  EXPECT_TRUE(testing::same_bits(one.weights[0], other.weights[0]));
  EXPECT_EQ(one.rows.size(), other.rows.size());
}

TEST(TrainerLimits, ShardsAreProvenAtEachEpochsEnd) {
  const TempFolder folder;
  auto run = two_epochs(folder, 3);
  run.experiment.trainer.verify_shards = true;
  run.train_samples = 25;  // a last batch of one sample: two ranks borrow
  ::testing::internal::CaptureStderr();
  train_toy(run);
  const auto text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, ::testing::HasSubstr("epoch 1 rank 2: 8 samples, sha256 "));
  EXPECT_THAT(text, ::testing::HasSubstr("epoch 2: the ranks' samples together are the epoch's"));
}

}  // namespace
}  // namespace ddprun
