// SPDX-License-Identifier: MIT
// The list of runs as a table for people.
#pragma once

#include "report/run_list.h"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

struct ListStyle {
  // If they do not suffice, the metric's name is cut, steps and workers are left out, then, if overrides are shown, the
  // start time and the epochs; then the overrides are cut and, on a terminal, the runs' names.
  size_t columns = 80;
  bool terminal = false;
  bool color = false;
  double now = 0;  // seconds since 1970
};

// Returns a header and one line per run; empty if there are none.
std::string run_list_text(const std::vector<ListedRun>& runs, const ListStyle& style);

std::string age_text(double seconds);       // "2 h ago"
std::string duration_text(double seconds);  // "1h 02m"

}  // namespace ddprun
