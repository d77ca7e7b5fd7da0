// SPDX-License-Identifier: MIT
// Writes and reads summary.json of a run folder, which shows scripts how the run ended.
#pragma once

#include "base/clock.h"
#include "config/experiment.h"
#include "config/monitors.h"
#include "metrics/logger_hub.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"

#include <ddprun/logger.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct RunSummary {
  RunEnd end;
  double first_step_seconds = 0;  // from the command's start to the end of the first optimizer step; 0: no step
  PhaseSeconds phases;            // in rank 0's training steps
  int64_t peak_rss_bytes = 0;     // of rank 0's process
  std::optional<MemoryFormat> memory_format;  // for images and filters; nothing if no worker reported it
  std::string cuda_graph;                     // "replayed", or the reason why not
  int64_t replayed_steps = 0;                 // in this attempt
  int64_t attempt = 0;
  std::string backend;    // as RunStart has it
  bool averaged = false;  // the weights that are evaluated and tested are an EMA (trainer.ema_decay)
  MetricHistory history;
  std::string best_checkpoint;  // path of the one at end.best_step; empty if there is none
  std::vector<RankPlace> ranks;
  std::vector<NamedValues> measured;  // of each rank's steps in this attempt; empty if nothing was
  std::string test_error;             // why a run that is trained has no test; empty: it has, or there is no test split
  std::vector<LoggerTrouble> loggers;  // in any attempt
};

// Replaces <run_dir>/summary.json as a whole. Throws UserError if it cannot be written.
void write_summary(const std::filesystem::path& run_dir, const RunSummary& summary);

// Reads the run's end from the file; the status is empty if there is none: it is still running, or was killed. Throws
// UserError if it cannot be read, as the next two do.
RunEnd read_run_end(const std::filesystem::path& run_dir);

// Reads the loggers' troubles up to the end that the file speaks of.
std::vector<LoggerTrouble> read_troubles(const std::filesystem::path& run_dir);

// Reads what the run lacks though it has ended well, each in a sentence: its test, which comes first and begins with
// kTestFailed, and rows of its loggers.
inline constexpr std::string_view kTestFailed = "the test failed: ";
std::vector<std::string> read_missing(const std::filesystem::path& run_dir);

// What one of its loggers' sidecars has not sent at the run's end.
struct Unsent {
  std::string name, problem, command;  // "wandb", why, and what the user types to send it later
};

// Adds them to the file, which the next attempt replaces. Throws UserError if it cannot be written.
void note_unsent(const std::filesystem::path& run_dir, const std::vector<Unsent>& unsent);

// Measures how long a run has taken: each of its commands from its start to its end or, if it had none, to its last
// checkpoint.
class RunClock {
 public:
  struct State {
    double earlier = 0;     // seconds of earlier commands
    double started_at = 0;  // start of the command that wrote this, by steady_seconds(): only to distinguish commands
    double seconds = 0;     // since then
  };

  explicit RunClock(double command_started_at) : started_at_(command_started_at), since_(command_started_at) {}

  // Continues from a checkpoint of the same command, after it restarted its workers, or of an earlier one.
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
