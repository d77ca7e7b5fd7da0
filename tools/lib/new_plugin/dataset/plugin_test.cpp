#include <ddprun/testing.h>
#include <gtest/gtest.h>

namespace {

namespace check = ddprun::check;

// The built plugin, as ddprun loads it.
const check::DatasetTest kDataset{
    .make = check::dataset_plugin(DDPRUN_PLUGIN, {{"train_size", 100}, {"test_size", 20}}),
};

// Each check returns what is wrong, and "" where nothing is.
TEST(@class@, HandsOutWhatItsSpecSays) { EXPECT_EQ(check::samples(kDataset), ""); }
TEST(@class@, ANumberIsTheSameSampleInEveryCallAndWorker) { EXPECT_EQ(check::same_samples(kDataset), ""); }
TEST(@class@, AugmentsByTheSamplesNumber) { EXPECT_EQ(check::augmentation(kDataset), ""); }

TEST(@class@, SaysWhichOptionIsWrong) {
  EXPECT_EQ(check::option_problems(DDPRUN_PLUGIN, {{"arms", 1}}), "dataset.arms: expected int >= 2, found 1");
}

}  // namespace
