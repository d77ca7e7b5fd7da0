// SPDX-License-Identifier: MIT
// summary.json of a run folder: how the run ended, for scripts.
#pragma once

#include "metrics/step_timer.h"

#include <ddprun/logger.h>

#include <filesystem>

namespace ddprun {

struct RunSummary {
  RunEnd end;
  double first_step_seconds = 0;  // from the command's start to the end of the first optimizer step; 0: none was made
  PhaseSeconds phases;            // of rank 0's training steps
  int64_t peak_rss_bytes = 0;     // of rank 0's process
  std::string memory_format;      // of images and filters
  std::string cuda_graph;         // "replayed", or why steps were not
  int64_t replayed_steps = 0;     // of this attempt
  int64_t attempt = 0;
  std::string backend;  // as RunStart has it
  std::vector<RankPlace> ranks;
};

// <run_dir>/summary.json, replaced whole.
void write_summary(const std::filesystem::path& run_dir, const RunSummary& summary);

// What the file tells of the run's end; the status is empty where there is none: the run goes on, or was killed.
RunEnd read_run_end(const std::filesystem::path& run_dir);

}  // namespace ddprun
