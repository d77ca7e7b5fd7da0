// SPDX-License-Identifier: MIT
// Lists the runs below a folder and their states.
#pragma once

#include "runs/run_state.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace ddprun {

struct ListedRun {
  std::string label;  // its path below the folder: "mnist/2026-11-20_12-00-00"
  std::filesystem::path path;
  RunState state;
  std::vector<std::string> overrides;  // all of its command line
  std::string apart;                   // those by which it differs from the runs beside it: "lr=0.1 layers=2"
  std::string flaw = {};               // why it cannot be read: its status is then "unreadable"
};

// Returns the newest first. Does not follow links such as `latest`, nor look for runs within another. A run, or a
// folder, that cannot be read is in the list, and hinders no other. Throws UserError if `folder` itself cannot be
// listed.
std::vector<ListedRun> list_runs(const std::filesystem::path& folder);

// Returns a run's entry in such a list.
ListedRun listed_run(const std::string& label, const std::filesystem::path& path);

nlohmann::ordered_json run_list_json(const std::vector<ListedRun>& runs);

// The list of runs as a table for people.
struct ListStyle {
  // A terminal's. If they do not suffice, the metric's name is cut, steps, workers and tests are left out, then, if
  // overrides are shown, the start time and the epochs; then the overrides are cut, and the runs' names.
  size_t columns = std::numeric_limits<size_t>::max();
  bool color = false;
  double now = 0;  // seconds since 1970
};

// Returns a header and one line per run; empty if there are none.
std::string run_list_text(const std::vector<ListedRun>& runs, const ListStyle& style);

std::string age_text(double seconds);       // "2 h ago"
std::string duration_text(double seconds);  // "1h 02m"

}  // namespace ddprun
