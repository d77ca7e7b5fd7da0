// SPDX-License-Identifier: MIT
// A batch that gives NaN: the run stops before anything is spoilt, or goes on as if the batch were not there.
#include "features/verify_shards/verify_shards_section.h"
#include "train/nonfinite_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The ranks; the sample that is bad: in the first step, in the fourth on the last rank's part, in the last step.
using Case = std::tuple<int64_t, int64_t>;
class Nonfinite : public ::testing::TestWithParam<Case> {
 protected:
  static int64_t ranks() { return std::get<0>(GetParam()); }
  static int64_t sample() { return std::get<1>(GetParam()); }

  static void expect_as_without(const ToyResult& result) {
    const auto expected = train_without({sample() / kBatch}, ranks());
    for (int64_t rank = 0; rank < ranks(); ++rank) {
      EXPECT_TRUE(same_bits(result.weights[rank], expected.weights[rank])) << "rank " << rank;
    }
    EXPECT_EQ(result.end.steps, expected.end.steps + 1);
    for (const auto* name : {"loss", "accuracy", "lr"})
      EXPECT_EQ(values_of(result.rows, "train", name), values_of(expected.rows, "train", name)) << name;
    EXPECT_EQ(values_of(result.rows, "val", "loss"), values_of(expected.rows, "val", "loss"));
    EXPECT_THAT(values_of(result.rows, "train", "skipped_steps"), ElementsAre(1));
  }
};

TEST_P(Nonfinite, SkipIsTrainingWithoutThatBatch) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "skip", ranks());
  poison(run, {sample()});
  expect_as_without(train_toy(run));
}

TEST_P(Nonfinite, RollbackIsTrainingWithoutThatBatch) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "rollback", ranks());
  run.experiment.features.set(VerifyShardsConfig{.on = true});
  poison(run, {sample()});
  expect_as_without(train_toy(run));
}

TEST_P(Nonfinite, StopLeavesTheCheckpointBefore) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "stop", ranks());
  run.experiment.checkpoint.every = {.steps = 1};
  poison(run, {sample()});
  const int64_t before = sample() / kBatch, rank = sample() % kBatch * ranks() / kBatch;
  EXPECT_THAT(error_of(run),
              AllOf(HasSubstr("step " + std::to_string(before + 1) + ": the training loss is not finite: nan on rank " +
                              std::to_string(rank)),
                    HasSubstr("Lower the learning rate"), HasSubstr(folder.path().string() + "/nonfinite/step_0")));
  EXPECT_EQ(newest_step(folder), before == 0 ? -1 : before);
  if (before > 0) {
    EXPECT_EQ(verify_checkpoint(folder.path() / "checkpoints" / "last").step, before);
    auto rest = poisoned_toy(folder, "skip", ranks());
    poison(rest, {sample()});
    rest.resume_from = folder.path() / "checkpoints" / "last";
    expect_as_without(train_toy(rest));
  }
}

TEST_P(Nonfinite, ARunResumedAfterOrBeforeItEndsTheSame) {
  for (const auto* action : {"skip", "rollback"}) {
    const TempFolder whole_folder, folder;
    auto whole = poisoned_toy(whole_folder, action, ranks()), cut = poisoned_toy(folder, action, ranks());
    poison(whole, {sample()});
    poison(cut, {sample()});
    auto rest = cut;
    const auto expected = train_toy(whole);
    const int64_t stop_at = sample() == 3 ? 5 : 3;
    cut.stop = [&](int64_t, int64_t step) { return step >= stop_at; };
    rest.resume_from = train_toy(cut).end.checkpoint;
    const auto result = train_toy(rest);
    EXPECT_TRUE(same_bits(result.weights[0], expected.weights[0])) << action;
    EXPECT_EQ(values_of(result.rows, "train", "skipped_steps"), values_of(expected.rows, "train", "skipped_steps"));
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, Nonfinite,
                         ::testing::Combine(::testing::Values(1, 2), ::testing::Values(3, 45, 8 * kBatch + 11)));

}  // namespace
}  // namespace ddprun::testing
