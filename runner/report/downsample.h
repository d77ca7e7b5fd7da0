// SPDX-License-Identifier: MIT
// Fewer points that show the same: of each stretch of a curve its least and its greatest value, and whether one was not
// finite.
#pragma once

#include "report/curves.h"

#include <vector>

namespace ddprun {

struct ThinCurve {
  std::vector<Point> points;  // of the curve itself, by steps
  std::vector<Point> means;   // of each stretch, for lines that are smoothed; empty where all points were kept
};

// At most `most` points (at least 5), the first and the last among them. A curve that is no longer stays as it is.
ThinCurve downsample(const std::vector<Point>& points, size_t most);

}  // namespace ddprun
