// SPDX-License-Identifier: MIT
// Reads metrics.jsonl as curves.
#pragma once

#include "report/attempts.h"

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
  std::vector<Curve> curves;  // in the order in which they begin
  int64_t last_step = 0, last_epoch = 0;
  double first_time = 0, last_time = 0;  // 0: there are no rows
  double steps_per_epoch = 0;            // 0: the rows do not tell
};

// Reads the rows that count, none if there is no file, whatever is broken in it; that is reported in `problems`, one line each. `starts`
// knows where attempts were resumed, and learns of those that the file shows.
Curves read_curves(const std::filesystem::path& file, AttemptStarts& starts, std::vector<std::string>& problems);

}  // namespace ddprun
