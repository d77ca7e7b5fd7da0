// SPDX-License-Identifier: MIT
// The promise: a run that was stopped and resumed ends as if it had never been stopped.
#include "features/verify_shards/verify_shards_section.h"
#include "support/error_of.h"
#include "support/toy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::same_bits;
using testing::TempFolder;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;
using testing::train_toy_twice;

ToyRun three_epochs(const TempFolder& folder, int64_t ranks) {
  ToyRun run{.ranks = ranks, .folder = folder.path()};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 3, .global_batch = 12, .log_every = 4};
  run.experiment.early_stopping = EarlyStoppingConfig{.patience = 30};
  return run;
}

// The numbers of the rows of later steps than `step`: what a resumed run must repeat.
std::vector<std::string> numbers(const std::vector<MetricRow>& rows, int64_t after) {
  std::vector<std::string> texts;
  for (const auto& row : rows) {
    if (row.step <= after) continue;
    std::string text = row.split + " " + std::to_string(row.step);
    for (const auto& [name, value] : row.values) {
      const bool is_time = name.ends_with("_per_second") || name.ends_with("_seconds");
      if (!is_time) text += " " + name + "=" + std::to_string(std::bit_cast<uint64_t>(value));
    }
    texts.push_back(text);
  }
  return texts;
}

using Stop = std::tuple<int64_t, int64_t>;  // ranks, the step after which the run is stopped
class TrainerResume : public ::testing::TestWithParam<Stop> {};

TEST_P(TrainerResume, EndsWithTheBitsOfTheUndisturbedRun) {
  const auto [ranks, stop_at] = GetParam();
  const TempFolder whole_folder, folder;
  const auto whole = train_toy(three_epochs(whole_folder, ranks));

  const auto [first, second] = train_toy_twice(three_epochs(folder, ranks), stop_at);
  EXPECT_EQ(first.end.status, "preempted");
  EXPECT_EQ(second.end.steps, whole.end.steps);
  EXPECT_TRUE(same_bits(second.weights[0], whole.weights[0]));
  EXPECT_EQ(second.end.metrics.size(), whole.end.metrics.size());
  EXPECT_EQ(second.history.values, whole.history.values);
  EXPECT_EQ(whole.history.values.size(), 3U);
  EXPECT_EQ(numbers(second.rows, first.end.steps), numbers(whole.rows, first.end.steps));
}

INSTANTIATE_TEST_SUITE_P(Steps, TrainerResume,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Values(1, 3, 8, 9, 10, 17, 18, 25)));

TEST(TrainerResume, SeveralDevicesOfOneProcessEndWithTheBitsOfTheUndisturbedRun) {
  const TempFolder whole_folder, folder;
  auto whole = three_epochs(whole_folder, 1), cut = three_epochs(folder, 1);
  for (auto* run : {&whole, &cut}) run->devices = 3;
  auto rest = cut;
  cut.stop = [](int64_t, int64_t step) { return step >= 8; };
  rest.resume_from = train_toy(cut).end.checkpoint;
  EXPECT_TRUE(same_bits(train_toy(rest).weights[0], train_toy(whole).weights[0]));
}

// Everything that has a state of its own, at once.
ToyRun with_everything(const TempFolder& folder) {
  auto run = three_epochs(folder, 2);
  auto& trainer = run.experiment.trainer;
  trainer.micro_batch = 2;
  trainer.precision = PrecisionMode::kFp16;
  trainer.clip_norm = 1;
  trainer.ema_decay = 0.9;
  trainer.gradient_compression = GradientCompression::kBf16;
  trainer.eval_every = {.steps = 5};
  run.experiment.features.set(VerifyShardsConfig{.on = true});
  run.experiment.schedule = {.kind = ScheduleKind::kPlateau, .warmup = {.steps = 6}, .threshold = 0.2, .patience = 0};
  return run;
}

class TrainerResumeEverything : public ::testing::TestWithParam<int64_t> {};

TEST_P(TrainerResumeEverything, EndsWithTheBitsOfTheUndisturbedRun) {
  const TempFolder whole_folder, folder;
  const auto whole = train_toy(with_everything(whole_folder));
  auto cut = with_everything(folder);
  cut.stop = [](int64_t rank, int64_t step) { return rank == 1 && step >= GetParam(); };
  const auto first = train_toy(cut);
  EXPECT_EQ(first.end.status, "preempted");
  auto rest = with_everything(folder);
  rest.resume_from = first.end.checkpoint;
  const auto second = train_toy(rest);
  EXPECT_TRUE(same_bits(second.weights[1], whole.weights[1]));
  EXPECT_EQ(numbers(second.rows, first.end.steps), numbers(whole.rows, first.end.steps));
}

INSTANTIATE_TEST_SUITE_P(Steps, TrainerResumeEverything, ::testing::Values(2, 4, 5, 9, 13, 22));

TEST(TrainerResumeElsewhere, AnotherWorldSizeContinuesAtTheSameSample) {
  const TempFolder whole_folder, folder;
  const auto whole = train_toy(three_epochs(whole_folder, 1));
  auto cut = three_epochs(folder, 2);
  cut.stop = [](int64_t, int64_t step) { return step >= 11; };
  const auto first = train_toy(cut);
  auto rest = three_epochs(folder, 3);
  rest.resume_from = first.end.checkpoint;
  const auto second = train_toy(rest);
  EXPECT_EQ(second.end.samples, whole.end.samples);
  EXPECT_LT(testing::largest_difference(second.weights[0], whole.weights[0]), 1e-5);
}

TEST(TrainerResumeElsewhere, ACompletedRunHasNothingLeftToDo) {
  const TempFolder folder;
  const auto first = train_toy(three_epochs(folder, 1));
  auto again = three_epochs(folder, 1);
  again.resume_from = first.end.checkpoint;
  const auto second = train_toy(again);
  EXPECT_EQ(second.end.steps, first.end.steps);
  EXPECT_EQ(second.end.status, "completed");
  EXPECT_TRUE(same_bits(second.weights[0], first.weights[0]));
}

TEST(TrainerResumeElsewhere, ACompletedRunGoesOnWhereMoreEpochsAreAsked) {
  const TempFolder folder, whole_folder;
  auto shorter = three_epochs(folder, 1);
  shorter.experiment.trainer.max_epochs = 1;
  const auto first = train_toy(shorter);
  auto longer = three_epochs(folder, 1);
  longer.resume_from = first.end.checkpoint;
  EXPECT_TRUE(same_bits(train_toy(longer).weights[0], train_toy(three_epochs(whole_folder, 1)).weights[0]));
}

TEST(TrainerResumeElsewhere, AnotherBatchOrSeedIsRefused) {
  const TempFolder folder;
  const auto first = train_toy(three_epochs(folder, 1));
  auto other = three_epochs(folder, 1);
  other.resume_from = first.end.checkpoint;
  other.experiment.trainer.global_batch = 13;
  const auto error = error_of([&] { train_toy(other); });
  EXPECT_THAT(error, ::testing::HasSubstr("trainer.global_batch is 13, but "));
}

}  // namespace
}  // namespace ddprun
