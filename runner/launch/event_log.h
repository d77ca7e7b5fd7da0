// SPDX-License-Identifier: MIT
// Writes the launcher's events to the run folder.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

// An event that the launcher adds to <run>/events.jsonl, where the logger jsonl writes the workers' events.
struct LaunchEvent {
  int attempt = 0;
  std::string kind;  // "attempt", "failure", "end"
  std::string text;  // a single line
};

// Appends a line with the present time. Only warns if the file cannot be written: the run is worth more.
void append_event(const std::filesystem::path& run_dir, const LaunchEvent& event);

}  // namespace ddprun
