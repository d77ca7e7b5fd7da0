// SPDX-License-Identifier: MIT
// summary.json of a run folder: how the run ended, for scripts.
#pragma once

#include <ddprun/logger.h>

#include <filesystem>

namespace ddprun {

struct Summary {
  RunEnd end;
  double first_step_seconds = 0;  // from the command's start to the end of the first optimizer step; 0: none was made
  double data_seconds = 0;        // of the training steps: waiting for batches
  double compute_seconds = 0;     // forward, backward with the gradient exchange, optimizer
  double step_seconds = 0;        // the steps as a whole
  int64_t peak_rss_bytes = 0;     // of rank 0's process
  int64_t attempt = 0;
};

// <run_dir>/summary.json, replaced whole.
void write_summary(const std::filesystem::path& run_dir, const Summary& summary);

}  // namespace ddprun
