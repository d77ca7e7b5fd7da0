// SPDX-License-Identifier: MIT
// Starts the workers of one node, watches them, and reports how they ended. Free of LibTorch.
#pragma once

#include "launch/worker_process.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct LaunchPlan {
  std::vector<std::string> command;  // the program and arguments of a worker: exec'd, never forked into
  std::vector<std::pair<std::string, std::string>> environment;  // on top of the launcher's own
  std::filesystem::path run_dir;     // logs go to <run_dir>/logs/rank_<N>.log
  int workers = 1;
  int attempt = 0;
  double started_at = 0;
  double grace_seconds = 30;  // after SIGTERM, before SIGKILL
};

struct LaunchResult {
  int exit_code = kExitFailed;
  std::string report;  // why it failed: the first failing rank, its signal or error, its last log lines; empty otherwise
};

// Runs the workers to their end. While it runs, SIGINT, SIGTERM and SIGUSR1 ask them to save and stop (SIGTERM to each); a
// second SIGINT ends them at once. A worker that fails ends the others. None outlives this call, nor the launcher itself:
// the kernel kills them where the launcher is killed. Only the processes started here are ever signalled.
LaunchResult launch_workers(const LaunchPlan& plan);

}  // namespace ddprun
