// SPDX-License-Identifier: MIT
// Reads events.jsonl: what happened to a run.
#pragma once

#include "runs/json_lines.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct RecordedEvent {
  double time = 0;  // seconds since 1970
  int64_t attempt = 0, epoch = 0, step = 0;
  std::string kind, text;
};

// Returns events in file order; `starts` learns where attempts were resumed. If there are very many, checkpoints are
// thinned out first.
std::vector<RecordedEvent> read_events(const std::filesystem::path& file, AttemptStarts& starts,
                                       std::vector<std::string>& problems);

}  // namespace ddprun
