// SPDX-License-Identifier: MIT
// How a run stands, from its folder: over, under way, or cut off.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

struct RunState {
  std::string name;  // of the experiment
  // As in summary.json; or "running"; "interrupted": nobody runs it, and nobody has ended it; "elsewhere": another node
  // keeps it, and `reason` says where.
  std::string status;
  std::string reason;      // why it ended; empty where that is not known
  nlohmann::json summary;  // of the newest attempt; null where that has none (yet)
  double started = 0;      // of the first attempt, seconds since 1970; 0: unknown
  double seconds = 0;      // all its commands took; without a summary the newest attempt so far; 0: unknown
  double epochs = 0;       // done; of a run without a summary: the one it was in
  int64_t steps = 0;
  int64_t workers = 0;    // 0: unknown
  std::string best_name;  // "val/accuracy": what the experiment calls best; empty where nothing was measured
  std::optional<double> best;
  bool maximize = true;  // whether more of it is better
};

// Never throws for what is missing or broken in the folder.
RunState read_run_state(const std::filesystem::path& run_dir);

// What a run has written, or somebody else in its place: null where it is broken, or nests deeper than 32 levels.
nlohmann::json parse_recorded_json(std::string_view text);

// The same for a file as a whole; null where it is missing, too.
nlohmann::json read_json_file(const std::filesystem::path& file);

// A count among what was written. Throws std::runtime_error for what is no whole number.
int64_t recorded_count(const nlohmann::json& value);

}  // namespace ddprun
