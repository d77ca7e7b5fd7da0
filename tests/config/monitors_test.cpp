// SPDX-License-Identifier: MIT
#include "config/monitors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

const double kNan = std::nan("");

TEST(Merit, IsTheMonitoredValue) {
  EXPECT_TRUE(is_better({0.6, 9}, {0.5, 1}, /*maximize=*/true));
  EXPECT_FALSE(is_better({0.6, 1}, {0.5, 9}, /*maximize=*/false));
  EXPECT_TRUE(is_better({0.4, 9}, {0.5, 1}, /*maximize=*/false));
}

TEST(Merit, OfEqualValuesIsTheLowerLoss) {
  for (const bool maximize : {true, false}) {
    EXPECT_TRUE(is_better({0.5, 1}, {0.5, 2}, maximize));
    EXPECT_FALSE(is_better({0.5, 2}, {0.5, 1}, maximize));
    EXPECT_FALSE(is_better({0.5, 1}, {0.5, 1}, maximize)) << "the first stays";
    EXPECT_FALSE(is_better({0.5, kNan}, {0.5, kNan}, maximize)) << "nor is a loss measured";
  }
}

TEST(Merit, WithoutAValueIsNever) {
  EXPECT_TRUE(is_better({0.5}, {}, true));
  EXPECT_FALSE(is_better({kNan, 1}, {}, true));
  EXPECT_FALSE(is_better({kNan, 1}, {0.5, 2}, true));
}

using Values = std::vector<std::pair<int64_t, double>>;

TEST(MetricHistory, HasWhatIsMeasuredAgainOnceAndOneMetricOnly) {
  MetricHistory history;
  for (const int64_t step : {10, 20, 30, 20, 25}) history.add("val/loss", step, static_cast<double>(step));
  EXPECT_EQ(history.values, (Values{{10, 10}, {20, 20}, {25, 25}}));
  history.add("val/accuracy", 30, 0.5);
  EXPECT_EQ(history.metric, "val/accuracy");
  EXPECT_EQ(history.values, (Values{{30, 0.5}}));
}

TEST(MetricHistory, KeepsTheNewestAndCountsTheOthers) {
  MetricHistory history;
  for (int64_t step = 1; step <= 1007; ++step) history.add("val/loss", step, 1);
  EXPECT_EQ(history.values.size(), 1000U);
  EXPECT_EQ(history.values.front().first, 8);
  EXPECT_EQ(history.left_out, 7);
}

}  // namespace
}  // namespace ddprun
