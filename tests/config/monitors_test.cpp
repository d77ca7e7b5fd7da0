// SPDX-License-Identifier: MIT
#include "config/monitors.h"

#include <gtest/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace ddprun
