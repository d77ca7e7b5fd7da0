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

// What a spool already holds of a run, when another attempt begins.
struct History {
  std::string spool;                               // its own word; empty where there is no spool
  std::map<std::string, std::string> params;       // as they were first told
  std::set<std::pair<std::string, int64_t>> rows;  // split and step
  std::set<std::string> images;                    // artifacts that are pictures
  std::vector<std::string> tables;                 // artifacts that are tables, in order
  std::string ended;                               // status of the last attempt; empty where none was told
  int64_t last_time_ms = 0;                        // of the last row
};

// Only the rows of `from_step` and later ones, for those before never come again, and those of the split "best".
History read_history(const std::filesystem::path& spool, int64_t from_step);

}  // namespace ddprun::mlflow
