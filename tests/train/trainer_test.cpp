// SPDX-License-Identifier: MIT
#include "support/toy_run.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace ddprun {
namespace {

using testing::largest_difference;
using testing::TempFolder;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;

ToyRun toy(const TempFolder& folder, int64_t ranks = 1) {
  ToyRun run{.ranks = ranks, .folder = folder.path()};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 5, .global_batch = 12, .log_every = 4};
  return run;
}

class TrainerWorlds : public ::testing::TestWithParam<int64_t> {};

TEST_P(TrainerWorlds, TrainTheSameWeightsAsOneRankWithRaggedBatches) {
  const TempFolder alone_folder, folder;
  const auto alone = train_toy(toy(alone_folder));  // 103 samples in batches of 12: the last has 7
  const auto several = train_toy(toy(folder, GetParam()));
  EXPECT_EQ(alone.end.steps, 45);
  for (const auto& weights : several.weights) EXPECT_LT(largest_difference(weights, alone.weights[0]), 1e-5);
}

TEST_P(TrainerWorlds, RanksEndWithEqualBits) {
  const TempFolder folder;
  const auto result = train_toy(toy(folder, GetParam()));
  for (const auto& weights : result.weights) EXPECT_TRUE(testing::same_bits(weights, result.weights[0]));
}

TEST_P(TrainerWorlds, ALastBatchSmallerThanTheWorldIsTrainedOnToo) {
  const TempFolder alone_folder, folder;
  auto alone = toy(alone_folder), several = toy(folder, GetParam());
  alone.train_samples = several.train_samples = 25;  // 12 + 12 + 1
  EXPECT_LT(largest_difference(train_toy(several).weights.back(), train_toy(alone).weights[0]), 1e-5);
}

TEST_P(TrainerWorlds, EvaluationCountsEverySampleOnce) {
  const TempFolder folder;
  auto run = toy(folder, GetParam());
  run.val_samples = 41;
  run.experiment.trainer.eval_batch = 4;
  const auto result = train_toy(run);
  const auto accuracy = std::ranges::find(result.end.metrics, "val/accuracy", &NamedValues::value_type::first);
  ASSERT_NE(accuracy, result.end.metrics.end());
  const double correct = accuracy->second * 41;
  EXPECT_NEAR(correct, std::round(correct), 1e-9);
  EXPECT_GT(accuracy->second, 0.6);
}

INSTANTIATE_TEST_SUITE_P(Worlds, TrainerWorlds, ::testing::Values(2, 3, 4));

TEST(Trainer, RowsOfAnEpochCoverItsStepsAndAnEvaluationFollows) {
  const TempFolder folder;
  auto run = toy(folder);
  run.experiment.trainer.max_epochs = 1;
  std::vector<std::string> rows;
  for (const auto& row : train_toy(run).rows) rows.push_back(row.split + " " + std::to_string(row.step));
  EXPECT_EQ(rows, (std::vector<std::string>{"train 4", "train 8", "train 9", "val 9"}));
}

TEST(Trainer, PredictionsOfTheFirstSamplesFollowEachEvaluationAndChangeNothing) {
  const TempFolder folder, plain_folder;
  auto run = toy(folder, 3);
  run.experiment.trainer.max_epochs = 2;
  run.experiment.trainer.eval_batch = 8;
  run.experiment.predictions = {.batches = 2, .images_per_batch = 3};
  const auto with = train_toy(run);
  ASSERT_EQ(with.predicted.size(), 2U);
  const auto& table = with.predicted.back();
  EXPECT_EQ(table.split, "val");
  EXPECT_EQ(table.step, 18);
  EXPECT_EQ(table.epoch, 2);
  EXPECT_EQ(table.class_names.size(), 3U);
  std::vector<int64_t> ids;
  for (const auto& row : table.rows) ids.push_back(row.id);
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 1, 2, 8, 9, 10}));

  run.folder = plain_folder.path();
  run.experiment.predictions = {};
  const auto without = train_toy(run);
  EXPECT_TRUE(without.predicted.empty());
  EXPECT_TRUE(testing::same_bits(with.weights[0], without.weights[0]));
}

TEST(Trainer, StopsAfterMaxStepsWithAnEvaluation) {
  const TempFolder folder;
  auto run = toy(folder);
  run.experiment.trainer.max_steps = 13;
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.steps, 13);
  EXPECT_EQ(result.end.status, "completed");
  EXPECT_EQ(result.rows.back().split, "val");
}

TEST(Trainer, StopsEarlyOnEveryRankAtTheSameEpoch) {
  const TempFolder folder;
  auto run = toy(folder, 3);
  run.experiment.trainer.max_epochs = 50;
  run.experiment.early_stopping = EarlyStoppingConfig{.patience = 2, .target = 0.6};
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.status, "stopped_early");
  EXPECT_LT(result.end.steps, 450);
  EXPECT_EQ(result.end.stop_reason, "val/accuracy held its target of 0.6 for 2 evaluations");
}

TEST(Trainer, AnUnknownMonitorIsAnErrorThatListsTheKnown) {
  const TempFolder folder;
  auto run = toy(folder);
  run.experiment.early_stopping = EarlyStoppingConfig{.monitor = "val/f1"};
  try {
    train_toy(run);
    FAIL() << "it found one";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no metric is called val/f1; known: "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("val/accuracy"));
  }
}

TEST(Trainer, ALossThatIsNotFiniteStopsEveryRankAndSavesNothing) {
  const TempFolder folder;
  auto run = toy(folder, 2);
  run.lr = std::numeric_limits<double>::infinity();
  EXPECT_THROW(train_toy(run), UserError);
  std::vector<CheckpointFlaw> flaws;
  EXPECT_FALSE(newest_checkpoint(folder.path(), flaws).has_value());
}

TEST(Trainer, BestFollowsTheMonitoredMetric) {
  const TempFolder folder;
  auto run = toy(folder);
  run.experiment.checkpoint.keep = 1;
  run.experiment.checkpoint.monitor = "val/loss";
  run.experiment.checkpoint.maximize = false;
  run.lr = 0.5;
  const auto result = train_toy(run);
  double best = 1e9;
  int64_t best_step = 0;
  for (const auto& row : result.rows) {
    if (row.split != "val" || row.values[0].second >= best) continue;
    best = row.values[0].second;
    best_step = row.step;
  }
  EXPECT_EQ(result.end.best.at(0).second, best);
  const auto info = verify_checkpoint(std::filesystem::canonical(folder.path() / "checkpoints" / "best"));
  EXPECT_EQ(info.step, best_step);
}

}  // namespace
}  // namespace ddprun
