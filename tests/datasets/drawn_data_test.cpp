// SPDX-License-Identifier: MIT
// The data sets that the program draws itself, digits and Friedman's first: each sample is a function of its number.
#include "plugin_under_test.h"

#include <ddprun/testing.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

namespace ddprun::test {
namespace {

std::shared_ptr<Dataset> digits(Settings settings = {}) {
  settings.insert(settings.begin(), {{"train_size", "2000"}, {"val_size", "100"}, {"test_size", "100"}});
  return started_dataset(DIGITS_PLUGIN, settings);
}

std::shared_ptr<Dataset> friedman(const Settings& settings = {}) { return started_dataset(FRIEDMAN_PLUGIN, settings); }

// Share of numbers that differ visibly.
double difference(const Batch& a, const Batch& b) {
  return (a.input - b.input).abs().gt(0.01).to(at::kFloat).mean().item<double>();
}

TEST(DrawnData, SplitsAndSeedsAreDifferentDrawsOfWhichEachIsTheSameEachTime) {
  for (const auto* plugin : {DIGITS_PLUGIN, FRIEDMAN_PLUGIN}) {
    const auto data = started_dataset(plugin, {}), again = started_dataset(plugin, {}),
               small = started_dataset(plugin, {{"train_size", "37"}}),
               other = started_dataset(plugin, {{"seed", "2"}});
    const auto train = first(*data, Split::kTrain, 100);
    EXPECT_TRUE(train.input.equal(first(*again, Split::kTrain, 100).input));
    EXPECT_TRUE(train.input.slice(0, 0, 37).equal(first(*small, Split::kTrain, 37).input)) << "whatever their number";
    for (const auto& drawn :
         {first(*data, Split::kVal, 100), first(*data, Split::kTest, 100), first(*other, Split::kTrain, 100)})
      EXPECT_GT(difference(train, drawn), 0.05) << plugin;
  }
}

TEST(Digits, HaveTheSizesAskedAsManyOfEachClassAndAreNormalized) {
  const auto data = digits({{"val_size", "0"}});
  EXPECT_EQ(data->size(Split::kTrain), 2000);
  EXPECT_EQ(data->size(Split::kVal), 0);
  EXPECT_EQ(data->size(Split::kTest), 100);
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{1, 28, 28}));
  const auto all = first(*data, Split::kTrain, 2000);
  EXPECT_TRUE(all.target.bincount().equal(at::full({10}, 200, at::kLong)));
  EXPECT_NEAR(all.input.mean().item<float>(), 0, 0.05);
  EXPECT_NEAR(all.input.std().item<float>(), 1, 0.05);
}

TEST(Digits, AreWrittenAlikeWithoutWarp) {
  const auto data = digits({{"warp", "0"}, {"noise", "0"}});
  const auto ones = data->get(Split::kTrain, Numbers{1, 11, 21, 31, 41, 51, 61, 71, 81, 91});
  const auto ink = ones.input.slice(2, 6, 20).slice(3, 12, 16).amax({1, 2, 3});  // the stem of each 1
  EXPECT_TRUE(ink.gt(1).all().item<bool>());
}

// What y would be without noise, as the paper writes it.
at::Tensor expected_of(const at::Tensor& input) {
  const auto x = [&](int64_t number) { return input.select(1, number - 1).to(at::kDouble); };
  return 10 * at::sin(std::numbers::pi * x(1) * x(2)) + 20 * (x(3) - 0.5).square() + 10 * x(4) + 5 * x(5);
}

TEST(Friedman, KeepsWhatADatasetPromises) {
  EXPECT_THAT(check::all({.make = check::dataset_plugin(FRIEDMAN_PLUGIN, {{"test_size", 0}})}), ::testing::IsEmpty());
}

TEST(Friedman, IsTheFormulaWithNoiseOfTheDeviationAsked) {
  const auto exact = first(*friedman({{"noise", "0"}}), Split::kTest, 500);
  EXPECT_TRUE(at::allclose(exact.target.to(at::kDouble), expected_of(exact.input), 1e-6, 1e-5));
  constexpr int64_t kCount = 10'000;
  const auto batch = first(*friedman({{"noise", "2.0"}}), Split::kTrain, kCount);
  const auto error = batch.target - expected_of(batch.input);
  EXPECT_NEAR(error.mean().item<double>(), 0, 4 * 2 / std::sqrt(kCount));
  EXPECT_NEAR(error.std().item<double>(), 2, 4 * 2 / std::sqrt(2 * kCount));
  EXPECT_GE(batch.input.min().item<float>(), 0);
  EXPECT_LE(batch.input.max().item<float>(), 1);  // a float: 1 - 2^-53 is rounded
  EXPECT_TRUE(at::allclose(batch.input.mean(0), at::full({10}, 0.5), 0, 0.02));
  EXPECT_TRUE(at::allclose(batch.input.std(0), at::full({10}, std::sqrt(1.0 / 12)), 0, 0.01));
}

TEST(Friedman, MoreFeaturesThanTheFiveOfTheFormulaChangeNeitherThoseNorTheTarget) {
  const auto few = first(*friedman({{"features", "5"}}), Split::kVal, 50);
  const auto many = first(*friedman({{"features", "40"}}), Split::kVal, 50);
  EXPECT_EQ(many.input.sizes(), at::IntArrayRef({50, 40}));
  EXPECT_TRUE(at::equal(few.input, many.input.slice(1, 0, 5)));
  EXPECT_TRUE(at::equal(few.target, many.target));
  EXPECT_TRUE(says(error_of([] { friedman({{"features", "4"}}); }), "features: expected int 5 .. 10000, found 4"));
}

}  // namespace
}  // namespace ddprun::test
