// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::mlflow {

// What a spool already holds about a run when another attempt begins.
struct History {
  std::string spool;                               // its id; empty if there is no spool
  std::map<std::string, std::string> params;       // as first written
  std::set<std::pair<std::string, int64_t>> rows;  // split and step
  std::set<std::string> images;                    // artifacts that are images
  std::vector<std::string> tables;                 // artifacts that are tables, in order
  std::string ended;                               // status of the last attempt; empty if none was recorded
  int64_t last_time_ms = 0;                        // time of the last row
};

// Reads only the rows from `from_step` on, since earlier ones never come again, and those of the split "best".
History read_history(const std::filesystem::path& spool, int64_t from_step);

}  // namespace ddprun::mlflow
