// SPDX-License-Identifier: MIT
// The promise: a run that was stopped and resumed ends as if it had never been stopped, wherever that was.
// tests/end_to_end/kill_resume_test.py has more of what may have a state, and fewer places.
#include "features/verify_shards/verify_shards_section.h"
#include "support/toy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::same_bits;
using testing::texts_of;
using testing::ToyRun;
using testing::train_toy;

ToyRun three_epochs(int64_t ranks) {
  ToyRun run{.ranks = ranks};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 3, .global_batch = 12, .log_every = 4};
  run.experiment.early_stopping = EarlyStoppingConfig{.patience = 30};
  return run;
}

ToyRun on_three_devices() {
  auto run = three_epochs(1);
  run.devices = 3;
  return run;
}

// Everything that has a state of its own, at once.
ToyRun with_everything() {
  auto run = three_epochs(2);
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

struct Stopped {
  const char* name;
  ToyRun run;
  std::vector<int64_t> after;  // steps; an epoch has nine
};
void PrintTo(const Stopped& stopped, std::ostream* out) { *out << stopped.name; }  // GoogleTest's name for this

class TrainerResume : public ::testing::TestWithParam<Stopped> {};

TEST_P(TrainerResume, EndsWithTheBitsOfTheUndisturbedRun) {
  const auto& [name, run, after] = GetParam();
  const auto whole = train_toy(run);
  for (const auto stop_at : after) {
    SCOPED_TRACE(stop_at);
    auto cut = run, rest = run;
    cut.stop = [=, last = run.ranks - 1](int64_t rank, int64_t step) { return rank == last && step >= stop_at; };
    const auto first = train_toy(cut);
    EXPECT_EQ(first.end.status, "preempted");
    rest.resume_from = first.end.checkpoint;
    const auto second = train_toy(rest);
    EXPECT_EQ(second.end.steps, whole.end.steps);
    EXPECT_TRUE(same_bits(second.weights.back(), whole.weights.front()));
    EXPECT_EQ(second.end.metrics.size(), whole.end.metrics.size());
    EXPECT_EQ(second.history.values, whole.history.values);
    EXPECT_EQ(texts_of(second.rows, first.end.steps), texts_of(whole.rows, first.end.steps));
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, TrainerResume,
                         ::testing::Values(Stopped{"OfOneRank", three_epochs(1), {1, 3, 8, 9, 10, 17, 18, 25}},
                                           Stopped{"OfTwoRanks", three_epochs(2), {1, 3, 8, 9, 10, 17, 18, 25}},
                                           Stopped{"OfThreeRanks", three_epochs(3), {1, 3, 8, 9, 10, 17, 18, 25}},
                                           Stopped{"OfThreeDevices", on_three_devices(), {8}},
                                           Stopped{"WithEverything", with_everything(), {2, 4, 5, 9, 13, 22}}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TrainerMoreEpochs, ACompletedRunContinuesWhereMoreEpochsAreAsked) {
  auto shorter = three_epochs(1), longer = three_epochs(1);
  shorter.experiment.trainer.max_epochs = 1;
  const auto first = train_toy(shorter);
  longer.resume_from = first.end.checkpoint;
  EXPECT_TRUE(same_bits(train_toy(longer).weights[0], train_toy(three_epochs(1)).weights[0]));
}

}  // namespace
}  // namespace ddprun
