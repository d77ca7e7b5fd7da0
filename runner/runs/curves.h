// SPDX-License-Identifier: MIT
// Reads metrics.jsonl as curves.
#pragma once

#include "runs/json_lines.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct Point {
  int64_t step = 0;
  double time = 0;   // seconds since 1970
  double value = 0;  // NaN if it was not finite
};

// One metric of one split, by ascending steps.
struct Curve {
  std::string split, name;  // "val", "accuracy"
  std::vector<Point> points;
};

struct Curves {
  std::vector<Curve> curves;   // in the order in which they begin
  double first_time = 0;       // 0: there are no rows
  double steps_per_epoch = 0;  // 0: the rows do not say
};

// Reads the rows that count, none if there is no file, whatever is broken in it; that is reported in `problems`, one
// line each. `starts` knows where attempts were resumed, and learns of those that the file shows.
Curves read_curves(const std::filesystem::path& file, AttemptStarts& starts, std::vector<std::string>& problems);

// Thins out a curve without changing its looks: each stretch keeps its smallest and its greatest value, and whether one
// was not finite.
struct ThinCurve {
  std::vector<Point> points;  // of the curve itself, by steps
  std::vector<Point> means;   // one per stretch, for smoothed lines; empty if all points were kept
};

// Returns at most `most` points (at least 5), including the first and the last. A shorter curve stays as it is.
ThinCurve downsample(const std::vector<Point>& points, size_t most);

}  // namespace ddprun
