// SPDX-License-Identifier: MIT
#include "metrics/histograms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace ddprun {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Histograms, EveryNumberIsInTheBinBetweenItsEdges) {
  const auto histogram = histogram_of("weights/w", at::tensor({0.0, 0.1, 0.9, 1.0, 2.0, 4.0}), 4);
  EXPECT_EQ(histogram.edges, (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(histogram.counts,
            (std::vector<int64_t>{3, 1, 1, 1}));  // an edge belongs to the bin that it begins, the last to the last
  EXPECT_EQ(histogram.min, 0);
  EXPECT_EQ(histogram.max, 4);
  EXPECT_DOUBLE_EQ(histogram.mean, 8.0 / 6);
}

TEST(Histograms, WhatIsNotFiniteIsCountedApart) {
  const auto histogram = histogram_of("w", at::tensor({1.0, kInfinity, -kInfinity, std::nan(""), 3.0}), 2);
  EXPECT_EQ(histogram.count, 5);
  EXPECT_EQ(histogram.nonfinite, 3);
  EXPECT_EQ(histogram.counts, (std::vector<int64_t>{1, 1}));
  EXPECT_DOUBLE_EQ(histogram.stddev, 1);
}

TEST(Histograms, EqualNumbersAreOneBin) {
  const auto histogram = histogram_of("w", at::zeros({7}), 10);
  EXPECT_EQ(histogram.edges, (std::vector<double>{0, 0}));
  EXPECT_EQ(histogram.counts, (std::vector<int64_t>{7}));
}

TEST(Histograms, NothingFiniteIsNoBin) {
  EXPECT_TRUE(histogram_of("w", at::full({3}, kInfinity), 10).edges.empty());
  EXPECT_TRUE(histogram_of("w", at::empty({0}), 10).counts.empty());
}

TEST(Histograms, HalfPrecisionIsCountedAsWell) {
  const auto histogram = histogram_of("w", at::arange(100, at::kBFloat16), 7);
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), int64_t{0}), 100);
}

}  // namespace
}  // namespace ddprun
