// SPDX-License-Identifier: MIT
#include "features/range_test/range_test.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace ddprun {
namespace {

// After how many steps a range test ends; 0 where it never does.
int ends_after(RangeTest test, const std::vector<double>& losses) {
  for (size_t i = 0; i < losses.size(); ++i) {
    if (test.observe(losses[i])) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(RangeTest, EndsWhereTheAverageIsFourTimesItsLowest) {
  const RangeTest test;
  std::vector<double> losses(50, 1.0);
  EXPECT_EQ(ends_after(test, losses), 0);
  losses.push_back(90);
  EXPECT_EQ(ends_after(test, losses), 0);
  losses.push_back(90);
  EXPECT_EQ(ends_after(test, losses), 52);
  losses[20] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ends_after(test, losses), 21);
}

TEST(RangeTest, TakesALossBelowZeroForNoDivergence) {
  std::vector<double> losses(50, -1.0);
  losses.push_back(20);
  EXPECT_EQ(ends_after(RangeTest(), losses), 0);
}

}  // namespace
}  // namespace ddprun
