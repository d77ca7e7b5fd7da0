// SPDX-License-Identifier: MIT
// Judges how all workers ended together: the exit code and, for people, which rank failed first and why.
#pragma once

#include "launch/heartbeat.h"
#include "launch/worker_process.h"

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// What a worker was doing when its launcher found that nothing moved, or when a signal killed it.
struct Stall {
  Activity activity = Activity::kStarting;
  int64_t step = 0;
  double seconds = 0;  // since it last moved, if it is running
  char state = '?';    // process state, as in /proc/PID/stat
  std::string doing;   // "in step() of model", "waits for the others: all-reduce"; empty where nobody knows
  bool waits = false;  // for the others, in a collective
};

// How one worker ended, as seen by its launcher.
struct WorkerEnd {
  int rank = 0;
  std::string host;                 // its node; empty if there is only one
  int exit_code = 0;                // valid if `signal` is 0
  bool rolls_back = false;          // it ended for a next attempt; the code is kExitPreempted
  int signal = 0;                   // the signal that killed it
  bool killed_by_launcher = false;  // by a signal that the launcher sent
  double time = 0;                  // steady_seconds() when it was noticed; 0: it never ran
  std::optional<WorkerFailure> failure;
  std::optional<Stall> stall;  // set if the attempt ended for lack of a beat, or a signal killed the worker
  std::filesystem::path log;
  std::deque<std::string> last_lines;
};

// How an attempt ended on one node.
struct AttemptEnd {
  int attempt = 0;
  std::vector<WorkerEnd> workers;
  int stop_signal = 0;   // the first signal by which the user asked for the end; 0: none
  bool at_once = false;  // a second signal ended it
  bool hung = false;     // it ended because a worker stalled
};

struct LaunchResult {
  int exit_code = kExitFailed;
  std::string
      report;  // why it failed: the first failing rank, its signal or error, its last log lines; otherwise empty
  double failed_at = 0;                // steady_seconds() of the first failing rank; 0: none
  bool stop_requested = false;         // a signal came: do not restart, whatever the exit code
  std::optional<WorkerFailure> cause;  // the first failing rank's own report, if it could write one
};

// Judges the workers of all nodes together.
LaunchResult judge_ends(const AttemptEnd& end);

// Returns a report's first line.
std::string headline(const std::string& report);

// Returns "SIGKILL (9): often the kernel's out-of-memory killer (see dmesg), or kill -9".
std::string describe_signal(int signal);

}  // namespace ddprun
