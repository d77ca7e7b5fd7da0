#include <ddprun/testing.h>
#include <gtest/gtest.h>

namespace {

namespace check = ddprun::check;

// The built plugin, as ddprun loads it.
const check::CallbackTest kCallback{.make = check::callback_plugin(DDPRUN_PLUGIN, {{"first_epoch", 3}})};

// Each check returns what is wrong, and "" where nothing is.
TEST(@class@, DoesTheSameOnAllRanks) { EXPECT_EQ(check::ranks_agree(kCallback), ""); }
TEST(@class@, GoesOnFromACheckpointAsIfNeverInterrupted) { EXPECT_EQ(check::state_round_trip(kCallback), ""); }

TEST(@class@, AveragesSeveralEpochsAndNeedsNoneOfOne) {
  EXPECT_GT(check::run_of(kCallback).weights_changed, 0);
  const auto last_alone = check::callback_plugin(DDPRUN_PLUGIN, {{"first_epoch", 6}});
  EXPECT_EQ(check::run_of({.make = last_alone, .epochs = 6}).weights_changed, 0);
}

TEST(@class@, SaysWhichOptionIsWrong) {
  EXPECT_EQ(check::option_problems(DDPRUN_PLUGIN, {{"first_epoch", 0}}),
            "callback.first_epoch: expected int >= 1, found 0");
}

}  // namespace
