// SPDX-License-Identifier: MIT
#include "runs/curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddprun {
namespace {

std::vector<Point> line(int64_t count) {
  std::vector<Point> points;
  for (int64_t step = 1; step <= count; ++step)
    points.push_back({step, static_cast<double>(step), 1.0 / static_cast<double>(step)});
  return points;
}

const Point* at(const std::vector<Point>& points, int64_t step) {
  const auto found = std::ranges::find(points, step, &Point::step);
  return found == points.end() ? nullptr : &*found;
}

TEST(Downsample, LeavesAShortCurveAsItIs) {
  const auto thin = downsample(line(100), 100);
  EXPECT_EQ(thin.points.size(), 100U);
  EXPECT_TRUE(thin.means.empty());
  EXPECT_TRUE(downsample({}, 100).points.empty());
}

TEST(Downsample, KeepsASingleSpikeAmongAHundredThousandPoints) {
  auto points = line(100'000);
  points[77'777].value = 1e6;
  points[33'333].value = -1e6;
  const auto thin = downsample(points, 3000);
  EXPECT_LE(thin.points.size(), 3000U);
  ASSERT_TRUE(at(thin.points, 77'778));
  EXPECT_EQ(at(thin.points, 77'778)->value, 1e6);
  ASSERT_TRUE(at(thin.points, 33'334));
  EXPECT_EQ(at(thin.points, 33'334)->value, -1e6);
}

TEST(Downsample, KeepsBothEndsAndTheOrder) {
  const auto thin = downsample(line(12'345), 500);
  EXPECT_EQ(thin.points.front().step, 1);
  EXPECT_EQ(thin.points.back().step, 12'345);
  EXPECT_TRUE(std::ranges::is_sorted(thin.points, {}, &Point::step));
  const auto twice = std::ranges::adjacent_find(thin.points, {}, &Point::step);
  EXPECT_EQ(twice, thin.points.end());
}

TEST(Downsample, MarksAPointThatIsNotFiniteAndTakesItForNoExtreme) {
  auto points = line(100'000);
  points[50'000].value = std::nan("");
  points[60'000].value = std::numeric_limits<double>::infinity();
  const auto thin = downsample(points, 1000);
  const auto lost = std::ranges::count_if(thin.points, [](const Point& point) { return !std::isfinite(point.value); });
  EXPECT_EQ(lost, 2);
  ASSERT_TRUE(at(thin.points, 50'001));
  EXPECT_TRUE(std::isnan(at(thin.points, 50'001)->value));
  for (const auto& mean : thin.means) EXPECT_TRUE(std::isfinite(mean.value));
}

TEST(Downsample, AveragesTheFiniteValuesOfAStretch) {
  std::vector<Point> points;
  for (int64_t step = 0; step < 1000; ++step) points.push_back({step, 0, step % 4 == 0 ? 4.0 : 0.0});
  for (const auto& mean : downsample(points, 62).means) EXPECT_NEAR(mean.value, 1, 0.1);
}

TEST(Downsample, OfACurveThatIsNowhereFiniteHasNothingButMarks) {
  std::vector<Point> points(1000, {0, 0, std::nan("")});
  const auto thin = downsample(points, 32);
  for (const auto& point : thin.points) EXPECT_TRUE(std::isnan(point.value));
  for (const auto& mean : thin.means) EXPECT_TRUE(std::isnan(mean.value));
}

}  // namespace
}  // namespace ddprun
