// SPDX-License-Identifier: MIT
#include "features/histograms/histograms_section.h"
#include "features/system_rows/system_rows_section.h"
#include "support/toy_run.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace ddprun {
namespace {

using testing::error_of_training;
using testing::largest_difference;
using testing::ToyDataset;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;

ToyRun five_epochs(int64_t ranks = 1) {
  ToyRun run{.ranks = ranks};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 5, .global_batch = 12, .log_every = 4};
  return run;
}

class TrainerWorlds : public ::testing::TestWithParam<int64_t> {};

// Returns the run on one rank, whose weights those of all ranks of the other are, in equal bits.
ToyResult expect_as_alone(const ToyRun& alone, ToyRun several) {
  several.ranks = TrainerWorlds::GetParam();
  auto expected = train_toy(alone);
  const auto result = train_toy(several);
  EXPECT_LT(largest_difference(result.weights[0], expected.weights[0]), 1e-5);
  for (const auto& weights : result.weights) EXPECT_TRUE(testing::same_bits(weights, result.weights[0]));
  return expected;
}

TEST_P(TrainerWorlds, TrainTheSameWeightsAsOneRankWithRaggedBatches) {
  const auto run = five_epochs();  // 103 samples in batches of 12: the last has 7
  EXPECT_EQ(expect_as_alone(run, run).end.steps, 45);
}

TEST_P(TrainerWorlds, ALastBatchSmallerThanTheWorldIsTrainedOnToo) {
  auto run = five_epochs();
  run.train_samples = 25;  // 12 + 12 + 1
  expect_as_alone(run, run);
}

TEST_P(TrainerWorlds, EvaluationCountsEverySampleOnce) {
  auto run = five_epochs(GetParam());
  run.val_samples = 41;
  run.experiment.trainer.eval_batch = 4;
  const auto result = train_toy(run);
  const auto accuracy = std::ranges::find(result.end.metrics, "val/accuracy", &NamedValues::value_type::first);
  ASSERT_NE(accuracy, result.end.metrics.end());
  const double correct = accuracy->second * 41;
  EXPECT_NEAR(correct, std::round(correct), 1e-9);
  EXPECT_GT(accuracy->second, 0.6);
}

TEST_P(TrainerWorlds, TrainTheSameWithASecondInput) {
  auto run = five_epochs();
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<testing::MaskedToyDataset>(train, val); };
  run.make_model = [] { return std::make_shared<testing::MaskedToyModel>(); };
  auto several = run, copies = run;
  several.experiment.trainer.micro_batch = 2;
  copies.devices = GetParam();
  const auto alone = expect_as_alone(run, several);
  EXPECT_LT(largest_difference(train_toy(copies).weights[0], alone.weights[0]), 1e-5);
  EXPECT_GT(testing::values_of(alone.rows, "val", "accuracy").back(), 0.5);
}

TEST_P(TrainerWorlds, TrainTheSameOnMixedSamples) {
  auto run = five_epochs();
  run.experiment.trainer.mixup = 0.4;
  auto several = run;
  several.experiment.trainer.micro_batch = 2;
  const auto alone = expect_as_alone(run, several);
  EXPECT_GT(largest_difference(train_toy(five_epochs()).weights[0], alone.weights[0]), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Worlds, TrainerWorlds, ::testing::Values(2, 3, 4));

TEST(Trainer, RowsCoverAllStepsOnceAndEachEpochHasItsMean) {
  auto run = five_epochs();
  run.experiment.trainer.max_epochs = 2;
  const auto result = train_toy(run);
  std::vector<std::string> rows;
  std::map<std::string, double> losses, samples;
  for (const auto& row : result.rows) {
    rows.push_back(row.split + " " + std::to_string(row.step));
    const auto covered = static_cast<double>(row.samples) - samples[row.split];
    losses[row.split] += row.values.front().second * covered;
    samples[row.split] += covered;
    const bool has_rate = std::ranges::count(row.values, "lr", &NamedValues::value_type::first) == 1;
    EXPECT_EQ(has_rate, row.split != "val") << row.split;
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"train 4", "train 8", "epoch 9", "val 9", "train 12", "train 16",
                                            "train 18", "epoch 18", "val 18"}));
  EXPECT_NEAR(losses["train"], losses["epoch"], 1e-9);
}

TEST(Trainer, PredictionsOfSomeSamplesFollowEachEvaluationAndChangeNothing) {
  auto run = five_epochs(3);
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
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 7, 15, 23, 31, 39}));

  run.experiment.predictions = {};
  const auto without = train_toy(run);
  EXPECT_TRUE(without.predicted.empty());
  EXPECT_TRUE(testing::same_bits(with.weights[0], without.weights[0]));
}

TEST(Trainer, HistogramsShowTheWeightsAndTheGradientsOfTheStepThatIsDue) {
  auto run = five_epochs(2);
  run.experiment.trainer.max_epochs = 2;
  run.experiment.features.set(HistogramsConfig{.every = {.epochs = 1}, .bins = 8});
  const auto with = train_toy(run);
  ASSERT_EQ(with.histograms.size(), 2U);
  const auto& table = with.histograms.back();
  EXPECT_EQ(table.step, 18);
  std::vector<std::string> names;
  for (const auto& histogram : table.histograms) names.push_back(histogram.name);
  EXPECT_EQ(names, (std::vector<std::string>{"weights/hidden.weight", "weights/hidden.bias", "weights/output.weight",
                                             "weights/output.bias", "gradients/hidden.weight", "gradients/hidden.bias",
                                             "gradients/output.weight", "gradients/output.bias"}));
  EXPECT_EQ(table.histograms[0].count, 8 * 16);
  const auto& bias = with.weights[0].at("hidden.bias");  // the last step's weights are those that the run ends with
  EXPECT_FLOAT_EQ(static_cast<float>(table.histograms[1].max), bias.max().item<float>());
  EXPECT_GT(table.histograms[4].stddev, 0);

  run.experiment.features.set(HistogramsConfig{});
  EXPECT_TRUE(testing::same_bits(with.weights[0], train_toy(run).weights[0]));
}

TEST(Trainer, ReportsItsCheckpoints) {
  auto run = five_epochs();
  run.experiment.trainer.max_epochs = 1;
  const auto result = train_toy(run);
  ASSERT_EQ(result.events.size(), 1U);
  EXPECT_EQ(result.events[0].kind, "checkpoint");
  EXPECT_EQ(result.events[0].text, "step_00000009, the best so far");
}

TEST(Trainer, StopsAfterMaxStepsWithAnEvaluation) {
  auto run = five_epochs();
  run.experiment.trainer.max_steps = 13;
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.steps, 13);
  EXPECT_EQ(result.end.status, "completed");
  EXPECT_EQ(result.rows.back().split, "val");
}

TEST(Trainer, StopsEarlyOnEveryRankAtTheSameEpoch) {
  auto run = five_epochs(3);
  run.experiment.trainer.max_epochs = 50;
  run.experiment.early_stopping = EarlyStoppingConfig{.target = 0.6, .hold = 2};
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.status, "stopped_early");
  EXPECT_LT(result.end.steps, 450);
  EXPECT_EQ(result.end.stop_reason, "val/accuracy reached its target of 0.6 in 2 evaluations in a row");
}

TEST(Trainer, AnUnknownMonitorIsAnErrorThatListsTheKnown) {
  auto run = five_epochs();
  run.experiment.early_stopping = EarlyStoppingConfig{.monitor = "val/f1"};
  const auto error = error_of_training(run);
  EXPECT_THAT(error, ::testing::HasSubstr("no metric is called val/f1; known: "));
  EXPECT_THAT(error, ::testing::HasSubstr("val/accuracy"));
}

// Its test split has one sample that cannot be read, which rank 1 of 2 meets; or where it meets an error of its own.
template <class Error>
class DamagedTest : public ToyDataset {
 public:
  DamagedTest(int64_t train, int64_t val) : ToyDataset(train, val, 20) {}
  Batch get(Split split, std::span<const int64_t> indices) const override {
    if (split == Split::kTest && std::ranges::find(indices, 15) != indices.end())
      throw Error("test/15.jpg: is a damaged JPEG\nand more of it");
    return ToyDataset::get(split, indices);
  }
};

template <class Error>
void expect_reported(const std::string& reported, int64_t ranks) {
  auto run = five_epochs(ranks);
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<DamagedTest<Error>>(train, val); };
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.status, "completed");
  EXPECT_THAT(result.end.stop_reason, ::testing::EndsWith("the test failed: " + reported));
  EXPECT_EQ(result.end.test_total, -1);
  EXPECT_EQ(verify_checkpoint(result.end.checkpoint).step, result.end.steps);
}

TEST(Trainer, ATestThatFailsOnOneRankIsNoFailureOfTheTraining) {
  for (const int64_t ranks : {1, 2})
    expect_reported<UserError>("dataset: test/15.jpg: is a damaged JPEG\nand more of it", ranks);
}

TEST(Trainer, AnErrorThatNoUserHasMadeIsReportedWithItsRankInOneLine) {
  expect_reported<std::runtime_error>("dataset: get() threw: test/15.jpg: is a damaged JPEG", 1);
  expect_reported<std::runtime_error>("rank 1: dataset: get() threw: test/15.jpg: is a damaged JPEG", 2);
}

TEST(Trainer, BestFollowsTheMonitoredMetric) {
  auto run = five_epochs();
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
  const auto info = verify_checkpoint(std::filesystem::canonical(result.own_folder->path() / "checkpoints" / "best"));
  EXPECT_EQ(info.step, best_step);
}

// Takes so long that each step is shown.
class SlowToyModel : public testing::ToyModel {
 public:
  static constexpr double kSeconds = 0.11;
  at::Tensor forward(const at::Tensor& input) override {
    const Stopwatch time;
    while (time.seconds() < kSeconds) continue;
    return ToyModel::forward(input);
  }
};

TEST(Trainer, ShowsRatesOfStepsThatWereTimed) {
  auto run = five_epochs();
  run.experiment.trainer.max_steps = 8;  // a row after the fourth
  run.make_model = [] { return std::make_shared<SlowToyModel>(); };
  std::map<int64_t, double> rates;
  for (const auto& shown : train_toy(run).progress) {
    if (shown.phase == "train") rates[shown.step] = shown.samples_per_second;
  }
  ASSERT_FALSE(rates.empty());  // some may be left out, under load
  for (const auto& [step, rate] : rates) {
    EXPECT_EQ(rate > 0, step > 1) << "before the first step was timed there is none; " << step;
    EXPECT_LT(rate, 12 / SlowToyModel::kSeconds) << step;
  }
}

TEST(SystemRows, MeasureTheStepsAtTheEndOfEachPart) {
  auto run = five_epochs(3);
  run.experiment.trainer.max_epochs = 2;
  const auto result = train_toy(run);
  ASSERT_EQ(result.measured.size(), 2U);
  EXPECT_EQ(result.measured.back().step, 18);
  const auto seconds = testing::values_of(result.measured, "system", "step_seconds");
  const auto forward = testing::values_of(result.measured, "system", "forward_seconds");
  ASSERT_EQ(forward.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_GT(forward[i], 0);
    EXPECT_LT(forward[i], seconds[i]);
  }
  run.experiment.features.set(SystemRowsConfig{.seconds = 0});
  EXPECT_TRUE(train_toy(run).measured.empty());
}

}  // namespace
}  // namespace ddprun
