// SPDX-License-Identifier: MIT
#include "first_samples.h"
#include "plugin_under_test.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

namespace ddprun::test {
namespace {

std::shared_ptr<Dataset> digits(Settings settings = {}) {
  settings.insert(settings.begin(), {{"train_size", "2000"}, {"val_size", "100"}, {"test_size", "100"}});
  const auto data = load_dataset(DIGITS_PLUGIN, settings);
  data->start();
  return data;
}

// Share of pixels that differ visibly.
double difference(const Batch& a, const Batch& b) {
  return (a.input - b.input).abs().gt(1).to(at::kFloat).mean().item<double>();
}

TEST(Digits, HasTheSizesAsked) {
  const auto data = digits({{"val_size", "0"}});
  EXPECT_EQ(data->size(Split::kTrain), 2000);
  EXPECT_EQ(data->size(Split::kVal), 0);
  EXPECT_EQ(data->size(Split::kTest), 100);
  EXPECT_EQ(data->spec().sample_shape, (std::vector<int64_t>{1, 28, 28}));
  EXPECT_EQ(data->spec().classes, 10);
}

TEST(Digits, IsTheSameEachTime) {
  EXPECT_TRUE(first(*digits(), Split::kTrain, 2000).input.equal(first(*digits(), Split::kTrain, 2000).input));
}

TEST(Digits, PictureDependsOnItsNumberNotOnTheSize) {
  EXPECT_TRUE(
      first(*digits({{"train_size", "37"}}), Split::kTrain, 37).input.equal(first(*digits(), Split::kTrain, 37).input));
}

TEST(Digits, SplitsAndSeedsAreDifferentDraws) {
  const auto data = digits();
  const auto train = first(*data, Split::kTrain, 100);
  EXPECT_GT(difference(train, first(*data, Split::kTest, 100)), 0.05);
  EXPECT_GT(difference(train, first(*data, Split::kVal, 100)), 0.05);
  EXPECT_GT(difference(train, first(*digits({{"seed", "2"}}), Split::kTrain, 100)), 0.05);
}

TEST(Digits, HasAsManyOfEachClass) {
  EXPECT_TRUE(first(*digits(), Split::kTrain, 2000).target.bincount().equal(at::full({10}, 200, at::kLong)));
}

TEST(Digits, IsNormalized) {
  const auto input = first(*digits(), Split::kTrain, 2000).input;
  EXPECT_NEAR(input.mean().item<float>(), 0, 0.05);
  EXPECT_NEAR(input.std().item<float>(), 1, 0.05);
}

TEST(Digits, WritesAlikeWithoutWarp) {
  const auto data = digits({{"warp", "0"}, {"noise", "0"}});
  const auto ones = data->get(Split::kTrain, std::vector<int64_t>{1, 11, 21, 31, 41, 51, 61, 71, 81, 91});
  const auto ink = ones.input.slice(2, 6, 20).slice(3, 12, 16).amax({1, 2, 3});  // the stem of each 1
  EXPECT_TRUE(ink.gt(1).all().item<bool>());
}

TEST(Digits, ThreadsGetWhatOneThreadGets) {
  const auto data = digits();
  const auto expected = first(*data, Split::kTrain, 2000);
  std::vector<Batch> got(4);
  std::vector<std::thread> threads;
  for (auto& batch : got) threads.emplace_back([&] { batch = first(*data, Split::kTrain, 2000); });
  for (auto& thread : threads) thread.join();
  for (const auto& batch : got) EXPECT_TRUE(batch.input.equal(expected.input));
}

}  // namespace
}  // namespace ddprun::test
