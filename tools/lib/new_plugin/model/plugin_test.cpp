#include <ddprun/testing.h>
#include <gtest/gtest.h>

namespace {

namespace check = ddprun::check;

// The built plugin, as ddprun loads it, with few units and small samples: enough to see what is wrong.
const check::ModelTest kModel{
    .make = check::model_plugin(DDPRUN_PLUGIN, {{"hidden", 16}}),
    .data = {.sample_shape = {1, 6, 6}, .classes = 4},
};

// Each check returns what is wrong, and "" where nothing is.
TEST(@class@, EvaluatesEachSampleForItself) { EXPECT_EQ(check::evaluation(kModel), ""); }
TEST(@class@, TrainsAllThatItRegisters) { EXPECT_EQ(check::parameters(kModel), ""); }
TEST(@class@, HasTheGradientsOfItsLoss) { EXPECT_EQ(check::gradients(kModel), ""); }
TEST(@class@, IsWholeInACheckpoint) { EXPECT_EQ(check::state_round_trip(kModel), ""); }
TEST(@class@, TrainsTheSameOnTwoRanks) { EXPECT_EQ(check::ranks_agree(kModel), ""); }

TEST(@class@, SaysWhichOptionIsWrong) {
  EXPECT_EQ(check::option_problems(DDPRUN_PLUGIN, {{"hidden", 0}}), "model.hidden: expected int >= 1, found 0");
}

}  // namespace
