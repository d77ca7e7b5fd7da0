#include <ddprun/testing.h>
#include <gtest/gtest.h>
#include <torch/optim/rmsprop.h>

namespace {

namespace check = ddprun::check;

// The built plugin, as ddprun loads it.
const check::OptimizerTest kOptimizer{
    .make = check::optimizer_plugin(DDPRUN_PLUGIN, {{"lr", 0.01}, {"alpha", 0.9}}),
};

// Each check returns what is wrong, and "" where nothing is. If LibTorch has the same optimizer, compare with it.
TEST(@class@, TakesTheStepsOfLibTorchs) {
  const auto reference = check::torch_optimizer<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01).alpha(0.9));
  EXPECT_EQ(check::same_as(kOptimizer, reference), "");
}

TEST(@class@, StepsAtTheLearningRateOfItsGroups) { EXPECT_EQ(check::steps(kOptimizer), ""); }
TEST(@class@, SkipsAStepThatOverflowed) { EXPECT_EQ(check::skips_overflow(kOptimizer), ""); }
TEST(@class@, GoesOnFromACheckpointAsIfNeverInterrupted) { EXPECT_EQ(check::state_round_trip(kOptimizer), ""); }
TEST(@class@, StepsEachParameterAsIfThereWereNoOther) { EXPECT_EQ(check::step_parts(kOptimizer), ""); }

TEST(@class@, SaysWhichOptionIsWrong) {
  EXPECT_EQ(check::option_problems(DDPRUN_PLUGIN, {{"lr", -1.0}}), "optimizer.lr: expected float >= 0, found -1");
}

}  // namespace
