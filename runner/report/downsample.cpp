// SPDX-License-Identifier: MIT
#include "report/downsample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace ddprun {
namespace {

constexpr size_t kPointsPerStretch = 3;  // least, greatest, not finite

// Appends the points of the stretch that stay, in order.
void keep_extremes(std::span<const Point> stretch, std::vector<Point>& kept) {
  const Point *least = nullptr, *greatest = nullptr, *lost = nullptr;
  for (const auto& point : stretch) {
    if (!std::isfinite(point.value)) {
      if (!lost) lost = &point;
      continue;
    }
    if (!least || point.value < least->value) least = &point;
    if (!greatest || point.value > greatest->value) greatest = &point;
  }
  std::array<const Point*, kPointsPerStretch> chosen = {least, greatest, lost};
  std::ranges::sort(chosen);
  const Point* previous = nullptr;
  for (const auto* point : chosen) {
    if (point && point != previous) kept.push_back(*point);
    previous = point;
  }
}

Point mean_of(std::span<const Point> stretch) {
  const auto& middle = stretch[stretch.size() / 2];
  double sum = 0;
  size_t count = 0;
  for (const auto& point : stretch) {
    if (!std::isfinite(point.value)) continue;
    sum += point.value;
    ++count;
  }
  return {middle.step, middle.time, count > 0 ? sum / static_cast<double>(count) : std::nan("")};
}

}  // namespace

ThinCurve downsample(const std::vector<Point>& points, size_t most) {
  if (points.size() <= most) return {points, {}};
  const auto inner = std::span(points).subspan(1, points.size() - 2);
  const auto stretches = (most - 2) / kPointsPerStretch;
  ThinCurve thin;
  thin.points.push_back(points.front());
  for (size_t i = 0; i < stretches; ++i) {
    const auto begin = i * inner.size() / stretches, end = (i + 1) * inner.size() / stretches;
    const auto stretch = inner.subspan(begin, end - begin);
    keep_extremes(stretch, thin.points);
    thin.means.push_back(mean_of(stretch));
  }
  thin.points.push_back(points.back());
  return thin;
}

}  // namespace ddprun
