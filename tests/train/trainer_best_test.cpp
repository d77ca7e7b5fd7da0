// SPDX-License-Identifier: MIT
// Which evaluation is the best, and what the test of its checkpoint says.
#include "support/toy_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

namespace ddprun {
namespace {

using testing::same_bits;
using testing::TempFolder;
using testing::ToyRun;
using testing::train_toy;
using testing::values_of;

std::optional<double> find(const NamedValues& values, const std::string& name) {
  const auto at = std::ranges::find(values, name, &NamedValues::value_type::first);
  return at == values.end() ? std::nullopt : std::optional(at->second);
}

NamedValues test_of(const NamedValues& values) {
  NamedValues found;
  std::ranges::copy_if(values, std::back_inserter(found),
                       [](const auto& value) { return value.first.starts_with("test/"); });
  return found;
}

// The best is the evaluation with the highest loss, the first one, so that it is not the last.
ToyRun best_first(int64_t ranks, double ema_decay) {
  ToyRun run{.ranks = ranks};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 3, .global_batch = 12, .log_every = 100, .ema_decay = ema_decay};
  run.experiment.checkpoint.monitor = "val/loss";
  run.experiment.checkpoint.maximize = true;
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<testing::ToyDataset>(train, val, 50); };
  return run;
}

class TrainerBest : public ::testing::TestWithParam<std::pair<int64_t, double>> {};  // ranks, ema_decay

TEST_P(TrainerBest, TheTestOfTheBestCheckpointIsThatOfARunThatEndedThere) {
  const auto& [ranks, ema_decay] = GetParam();
  const auto whole = train_toy(best_first(ranks, ema_decay));
  auto shorter = best_first(ranks, ema_decay);
  shorter.experiment.trainer.max_epochs = 1;
  const auto alone = train_toy(shorter);
  ASSERT_EQ(whole.end.best_step, alone.end.steps);
  EXPECT_EQ(test_of(whole.end.best), test_of(alone.end.metrics));
  EXPECT_EQ(test_of(alone.end.best), test_of(alone.end.metrics)) << "the best is the last";
  EXPECT_NE(test_of(whole.end.metrics), test_of(whole.end.best));
  EXPECT_EQ(find(whole.end.metrics, "test/accuracy"), static_cast<double>(whole.end.test_correct) / 50);
}

TEST_P(TrainerBest, ItsTestLeavesTheLastWeightsInTheModel) {
  const auto& [ranks, ema_decay] = GetParam();
  const auto tested = train_toy(best_first(ranks, ema_decay));
  auto without = best_first(ranks, ema_decay);
  without.make_dataset = ToyRun().make_dataset;
  const auto untested = train_toy(without);
  for (size_t rank = 0; rank < tested.weights.size(); ++rank)
    EXPECT_TRUE(same_bits(tested.weights[rank], untested.weights[rank]));
  EXPECT_EQ(test_of(untested.end.best), NamedValues());
}

INSTANTIATE_TEST_SUITE_P(Worlds, TrainerBest,
                         ::testing::Values(std::pair(1, 0.0), std::pair(2, 0.0), std::pair(2, 0.9)));

TEST(TrainerTests, AmongEqualValuesTheLowerLossIsTheBest) {
  ToyRun run{.val_samples = 1};  // it is right or wrong
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 5, .global_batch = 12, .log_every = 100};
  const auto result = train_toy(run);
  const auto values = values_of(result.rows, "val", "accuracy"), losses = values_of(result.rows, "val", "loss");
  const auto best = *std::ranges::max_element(values);
  std::vector<double> tied;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == best) tied.push_back(losses[i]);
  }
  ASSERT_GT(tied.size(), 1U);
  ASSERT_LT(*std::ranges::min_element(tied), tied.front()) << "the first is not the best";
  EXPECT_EQ(find(result.end.best, "val/loss"), *std::ranges::min_element(tied));
  EXPECT_EQ(std::filesystem::read_symlink(result.own_folder->path() / "checkpoints/best"),
            checkpoint_name(result.end.best_step));
}

TEST(TrainerTests, ACheckpointThatIsGoneIsNotTestedAndTheRunEndsWell) {
  const TempFolder folder;
  auto run = best_first(2, 0);
  run.folder = folder.path();
  run.stop = [&](int64_t rank, int64_t step) {
    if (rank == 0 && step > 18) std::filesystem::remove_all(folder.path() / "checkpoints" / checkpoint_name(9));
    return false;
  };
  const auto end = train_toy(run).end;
  EXPECT_EQ(end.status, "completed");
  EXPECT_EQ(end.best_step, 9);
  EXPECT_EQ(test_of(end.best), NamedValues());
  EXPECT_NE(test_of(end.metrics), NamedValues());
}

}  // namespace
}  // namespace ddprun
