// SPDX-License-Identifier: MIT
// Lists the runs below a folder and their states.
#pragma once

#include "report/run_state.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct ListedRun {
  std::string label;  // its path below the folder: "mnist/2026-11-20_12-00-00"
  std::filesystem::path path;
  RunState state;
  std::vector<std::string> overrides;  // all of its command line
  std::string apart;                   // those by which it differs from the runs beside it: "lr=0.1 layers=2"
};

// Returns the newest first. Does not follow links such as `latest`, nor look for runs within another. Throws UserError
// if the folder cannot be listed.
std::vector<ListedRun> list_runs(const std::filesystem::path& folder);

nlohmann::ordered_json run_list_json(const std::vector<ListedRun>& runs);

}  // namespace ddprun
