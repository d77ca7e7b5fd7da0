// SPDX-License-Identifier: MIT
#include "features/max_time/max_time_section.h"
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

}  // namespace
}  // namespace ddprun
