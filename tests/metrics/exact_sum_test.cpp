// SPDX-License-Identifier: MIT
#include "metrics/exact_sum.h"

#include <ddprun/random.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ddprun {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const auto value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, LosesNothingBetweenLargeNumbersThatCancel) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1e308, 1, -1e308}), 1);
  EXPECT_EQ(sum_of({1e16, 1, 1, -1e16}), 2);
  EXPECT_EQ(sum_of({0x1p-1074, 1e308, 0x1p-1074, -1e308}), 0x1p-1073);
  EXPECT_EQ(sum_of({-3, 2.5}), -0.5);
}

TEST(ExactSum, IsRoundedOnceToTheNearestAndThenToTheEven) {
  EXPECT_EQ(sum_of(std::vector<double>(10, 0.1)), 1.0);  // 1 + 5.6e-17, where adding doubles gives 1 - 1.1e-16
  EXPECT_EQ(sum_of({1, 0x1p-53}), 1);                    // a tie
  EXPECT_EQ(sum_of({1, 0x1p-52, 0x1p-53}), 1 + 0x1p-51);
  EXPECT_EQ(sum_of({1, 0x1p-53, 0x1p-1074}), 1 + 0x1p-52);
  EXPECT_EQ(sum_of({-1, -0x1p-53, -0x1p-1074}), -1 - 0x1p-52);
}

TEST(ExactSum, HoldsEveryDouble) {
  for (const double value : {0x1p-1074, 0x1.fffffffffffffp-1023, 0x1p-1022, 1.0 / 3, 0x1.fffffffffffffp1023}) {
    EXPECT_EQ(sum_of({value}), value);
    EXPECT_EQ(sum_of({-value}), -value);
  }
  EXPECT_EQ(sum_of({0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023}), std::numeric_limits<double>::infinity());
}

TEST(ExactSum, NumbersThatAreNoneMakeSumsOfTheirKind) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(sum_of({1, std::nan(""), 2})));
  EXPECT_EQ(sum_of({1, kInfinite}), kInfinite);
  EXPECT_EQ(sum_of({1, -kInfinite}), -kInfinite);
  EXPECT_TRUE(std::isnan(sum_of({kInfinite, -kInfinite})));
}

TEST(ExactSum, DependsNeitherOnTheOrderNorOnTheParts) {
  RandomStream draws(1, 2);
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i)
    values.push_back(draws.normal() * std::ldexp(1, static_cast<int>(draws.below(200)) - 100));
  const auto expected = sum_of(values);
  for (const size_t parts : {1, 3, 7}) {
    draws.shuffle(values);
    std::vector<ExactSum> sums(parts);
    for (size_t i = 0; i < values.size(); ++i) sums[i % parts].add(values[i]);
    ExactSum joined;
    ExactSum::Words words{};
    for (auto& sum : sums) {
      joined.add(sum);
      for (size_t i = 0; i < words.size(); ++i) words[i] += sum.words()[i];
    }
    EXPECT_EQ(joined.value(), expected);
    EXPECT_EQ(ExactSum(words).value(), expected);
  }
}

}  // namespace
}  // namespace ddprun
