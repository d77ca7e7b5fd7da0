// SPDX-License-Identifier: MIT
// Thins out a curve without changing its looks: each stretch keeps its smallest and its greatest value, and whether one
// was not finite.
#pragma once

#include "report/curves.h"

#include <vector>

namespace ddprun {

struct ThinCurve {
  std::vector<Point> points;  // of the curve itself, by steps
  std::vector<Point> means;   // one per stretch, for smoothed lines; empty if all points were kept
};

// Returns at most `most` points (at least 5), including the first and the last. A shorter curve stays as it is.
ThinCurve downsample(const std::vector<Point>& points, size_t most);

}  // namespace ddprun
