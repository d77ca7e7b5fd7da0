// SPDX-License-Identifier: MIT
// What the ends of all workers mean together: the exit code, and for people which rank failed first and why.
#pragma once

#include "launch/heartbeat.h"
#include "launch/worker_process.h"

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// Where a worker stood when its launcher found that nothing moved, or when a signal killed it.
struct Stall {
  Activity activity = Activity::kStarting;
  int64_t step = 0;
  double seconds = 0;  // since it last moved, of one that runs
  char state = '?';    // of its process, as in /proc/PID/stat
  std::string doing;   // "in step() of model", "waits for the others: all-reduce"; empty where nobody knows
  bool waits = false;  // for the others, in a collective
};

// How one worker ended, as the launcher saw it.
struct WorkerEnd {
  int rank = 0;
  std::string host;                 // of its node; empty where there is one node
  int exit_code = 0;                // where `signal` is 0
  int signal = 0;                   // that killed it
  bool killed_by_launcher = false;  // by a signal that the launcher had sent it
  double time = 0;                  // seconds since 1970 when it was seen
  std::optional<WorkerFailure> failure;
  std::optional<Stall> stall;  // of an attempt that ended for want of a beat, and of one that a signal killed
  std::filesystem::path log;
  std::deque<std::string> last_lines;
};

// How an attempt ended on one node.
struct AttemptEnd {
  int attempt = 0;
  std::vector<WorkerEnd> workers;
  int stop_signal = 0;   // the first by which the user asked for the end; 0: none
  bool at_once = false;  // he asked twice
  bool hung = false;     // a worker stood still for too long when it ended
};

struct LaunchResult {
  int exit_code = kExitFailed;
  std::string
      report;  // why it failed: the first failing rank, its signal or error, its last log lines; empty otherwise
  bool stop_requested = false;         // a signal came: do not restart, whatever the exit code
  std::optional<WorkerFailure> cause;  // what the first failing rank wrote of it, if it could
};

// Of all nodes' workers together.
LaunchResult judge_ends(const AttemptEnd& end);

// A report's first line.
std::string headline(const std::string& report);

// "SIGKILL (9): often the kernel's out-of-memory killer (see dmesg), or kill -9".
std::string describe_signal(int signal);

}  // namespace ddprun
