// SPDX-License-Identifier: MIT
#include "features/max_time/max_time_section.h"
#include "features/system_rows/system_rows_section.h"
#include "support/toy_run.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::steps_of;
using testing::TempFolder;
using testing::ToyRun;
using testing::train_toy;

TEST(MaxTime, EndsTheRunOnAllRanksAtTheSameStepWithAnEvaluation) {
  const TempFolder folder;
  ToyRun run{.ranks = 3, .folder = folder.path()};
  run.experiment.trainer = {.max_epochs = 1'000'000, .global_batch = 12, .log_every = 100};
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

TEST(SystemRows, MeasureTheStepsAtTheEndOfEachPart) {
  const TempFolder folder;
  ToyRun run{.ranks = 3, .folder = folder.path()};
  run.experiment.trainer = {.max_epochs = 2, .global_batch = 12, .log_every = 4};
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
