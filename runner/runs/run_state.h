// SPDX-License-Identifier: MIT
// The state of a run, from its folder: over, in progress, or cut off.
#pragma once

#include "base/words.h"
#include "config/monitors.h"

#include <ddprun/logger.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct RunState {
  std::string name;                            // name of the experiment
  RunStatus status = RunStatus::kInterrupted;  // with kElsewhere `reason` says where
  std::string reason;                          // why it ended; empty if unknown
  int64_t attempt = 0;                         // that this is the state of; 0 if unknown, too
  nlohmann::json summary;                      // of the newest attempt; null if that has none (yet)
  bool has_damaged_summary = false;            // there is one that says nothing: the run need not be interrupted
  double started = 0;                          // start of the first attempt, seconds since 1970; 0: unknown
  double seconds = 0;  // taken by all its commands; without a summary, by the newest attempt so far; 0: unknown
  double epochs = 0;   // epochs done; without a summary, the one it was in
  int64_t steps = 0;
  int64_t workers = 0;    // 0: unknown
  std::string best_name;  // "val/accuracy": what the experiment calls best; empty where nothing was measured
  std::optional<double> best;
  bool maximize = true;                        // true if more of it is better
  std::optional<double> test_best, test_last;  // the same of the test split, for the best checkpoint and the last
};

// Whatever is missing or broken in the folder is left out. Throws UserError for a file that open_below() refuses.
RunState read_run_state(const std::filesystem::path& run_dir);

// Parses what a run, or somebody else, has written; returns null if it is broken or nests deeper than 32 levels.
nlohmann::json parse_recorded_json(std::string_view text);

// Does the same for a whole file of a run's folder; returns null if it is missing, too. Throws UserError as
// read_below() does.
nlohmann::json read_json_file(const std::filesystem::path& file);

// Returns a recorded count. Throws std::runtime_error unless it is a whole number.
int64_t recorded_count(const nlohmann::json& value);

// Reconstructs how a run ended whose workers were killed, from its rows and checkpoints.

struct RecordedEnd {
  RunEnd end;  // all but the reason; the status is "running" or "interrupted" if nobody has ended the run
  MetricHistory history;
};

// What is not recorded is 0, or empty.
RecordedEnd recorded_end(const std::filesystem::path& run_dir);

// Lists the checkpoints of a run by name and size. `ddprun verify` checks whether they are whole.
struct ListedCheckpoint {
  std::string name;  // step_00001200
  int64_t step = 0;
  uint64_t bytes = 0;
  double saved = 0;  // seconds since 1970
  bool best = false, last = false;
};

// Returns them by ascending steps; empty if there are none.
std::vector<ListedCheckpoint> list_checkpoints(const std::filesystem::path& run_dir);
nlohmann::ordered_json checkpoint_list_json(const std::filesystem::path& run_dir);

}  // namespace ddprun
