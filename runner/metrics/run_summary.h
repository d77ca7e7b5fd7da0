// SPDX-License-Identifier: MIT
// summary.json of a run folder: how the run ended, for scripts.
#pragma once

#include "base/clock.h"
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

// How long a run has taken: each of its commands from its start to its end or, where that was none, to its last
// checkpoint.
class RunClock {
 public:
  struct State {
    double earlier = 0;     // seconds of the commands before
    double started_at = 0;  // of the command that wrote this: steady_seconds(), as its name alone
    double seconds = 0;     // since then
  };

  explicit RunClock(double command_started_at) : started_at_(command_started_at), since_(command_started_at) {}

  // Goes on from a checkpoint: one of the same command, which has started its workers again, or of an earlier one.
  void set_state(const State& state) {
    earlier_ = state.earlier + (state.started_at == started_at_ ? 0 : state.seconds);
  }
  State state() const { return {.earlier = earlier_, .started_at = started_at_, .seconds = since_.seconds()}; }

  double seconds() const { return earlier_ + since_.seconds(); }

 private:
  double started_at_;
  TimeSince since_;
  double earlier_ = 0;
};

}  // namespace ddprun
