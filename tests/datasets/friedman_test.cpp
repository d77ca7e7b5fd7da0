// SPDX-License-Identifier: MIT
#include "first_samples.h"

#include <ddprun/testing.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

namespace ddprun {
namespace {

using check::Settings;

std::shared_ptr<Dataset> friedman(const Settings& settings = {}) {
  const auto data = check::dataset_plugin(FRIEDMAN_PLUGIN, settings)();
  data->start();
  return data;
}

// What y would be without noise, as the paper writes it.
at::Tensor expected_of(const at::Tensor& input) {
  const auto x = [&](int64_t number) { return input.select(1, number - 1).to(at::kDouble); };
  return 10 * at::sin(std::numbers::pi * x(1) * x(2)) + 20 * (x(3) - 0.5).square() + 10 * x(4) + 5 * x(5);
}

TEST(Friedman, KeepsWhatADatasetPromises) {
  EXPECT_THAT(check::all({.make = check::dataset_plugin(FRIEDMAN_PLUGIN, {{"test_size", 0}})}), testing::IsEmpty());
}

TEST(Friedman, IsTheFormulaWhereThereIsNoNoise) {
  const auto batch = first(*friedman({{"noise", 0}}), Split::kTest, 500);
  EXPECT_TRUE(at::allclose(batch.target.to(at::kDouble), expected_of(batch.input), 1e-6, 1e-5));
}

TEST(Friedman, HasNoiseOfTheDeviationAsked) {
  constexpr int64_t kCount = 10'000;
  const auto batch = first(*friedman({{"noise", 2.0}}), Split::kTrain, kCount);
  const auto error = batch.target - expected_of(batch.input);
  EXPECT_NEAR(error.mean().item<double>(), 0, 4 * 2 / std::sqrt(kCount));
  EXPECT_NEAR(error.std().item<double>(), 2, 4 * 2 / std::sqrt(2 * kCount));
}

TEST(Friedman, HasFeaturesThatAreUniform) {
  const auto input = first(*friedman(), Split::kTrain, 10'000).input;
  EXPECT_GE(input.min().item<float>(), 0);
  EXPECT_LE(input.max().item<float>(), 1);  // a float: 1 - 2^-53 is rounded
  EXPECT_TRUE(at::allclose(input.mean(0), at::full({10}, 0.5), 0, 0.02));
  EXPECT_TRUE(at::allclose(input.std(0), at::full({10}, std::sqrt(1.0 / 12)), 0, 0.01));
}

TEST(Friedman, MoreFeaturesChangeNeitherTheFirstNorTheTarget) {
  const auto few = first(*friedman({{"features", 5}}), Split::kVal, 50);
  const auto many = first(*friedman({{"features", 40}}), Split::kVal, 50);
  EXPECT_EQ(many.input.sizes(), at::IntArrayRef({50, 40}));
  EXPECT_TRUE(at::equal(few.input, many.input.slice(1, 0, 5)));
  EXPECT_TRUE(at::equal(few.target, many.target));
}

TEST(Friedman, SplitsAndSeedsAreDifferentDraws) {
  const auto data = friedman(), other = friedman({{"seed", 2}});
  const auto train = first(*data, Split::kTrain, 100).input;
  for (const auto& drawn :
       {first(*data, Split::kVal, 100), first(*data, Split::kTest, 100), first(*other, Split::kTrain, 100)}) {
    EXPECT_TRUE(drawn.input.ne(train).all().item<bool>());
  }
}

TEST(Friedman, NeedsTheFiveFeaturesOfTheFormula) {
  EXPECT_EQ(check::option_problems(FRIEDMAN_PLUGIN, {{"features", 4}}),
            "dataset.features: expected int 5 .. 10000, found 4");
}

}  // namespace
}  // namespace ddprun
