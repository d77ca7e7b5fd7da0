#include <ddprun/testing.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace {

namespace check = ddprun::check;

// The built plugin, as ddprun loads it.
const auto kObjective = check::class_test(check::objective_plugin(DDPRUN_PLUGIN, {{"gamma", 1.5}}), 5);

// Each check returns what is wrong, and "" where nothing is.
TEST(@class@, IsTheMeanOverTheSamples) { EXPECT_EQ(check::mean_over_samples(kObjective), ""); }
TEST(@class@, HasTheGradientsOfItsLoss) { EXPECT_EQ(check::gradients(kObjective), ""); }
TEST(@class@, HasMetricsThatAddUp) { EXPECT_EQ(check::metrics_add_up(kObjective), ""); }

TEST(@class@, IsCrossEntropyWithoutGamma) {
  const auto plain = check::objective_plugin(DDPRUN_PLUGIN, {{"gamma", 0}})();
  const auto &[make, prediction, target] = kObjective;
  EXPECT_NEAR(plain->loss(prediction, target).item<double>(), at::cross_entropy_loss(prediction, target).item<double>(), 1e-6);
}

TEST(@class@, SaysWhichOptionIsWrong) {
  EXPECT_EQ(check::option_problems(DDPRUN_PLUGIN, {{"gamma", -1.0}}), "objective.gamma: expected float >= 0, found -1");
}

}  // namespace
