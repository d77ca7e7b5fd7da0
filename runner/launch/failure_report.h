// SPDX-License-Identifier: MIT
// What the ends of all workers mean together: the exit code, and for people which rank failed first and why.
#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/launcher.h"

namespace ddprun {

// How one worker ended, as the launcher saw it.
struct WorkerEnd {
  int rank = 0;
  int exit_code = 0;                // where `signal` is 0
  int signal = 0;                   // that killed it
  bool killed_by_launcher = false;  // by a signal that the launcher had sent it
  double time = 0;                  // seconds since 1970 when it was seen
  std::optional<WorkerFailure> failure;
  std::filesystem::path log;
  std::deque<std::string> last_lines;
};

// `stop_signal`: the first by which the user asked for the end; 0: none. `at_once`: he asked twice.
LaunchResult judge_ends(const std::vector<WorkerEnd>& ends, int stop_signal, bool at_once);

// "SIGKILL (9): often the kernel's out-of-memory killer (see dmesg), or kill -9".
std::string describe_signal(int signal);

}  // namespace ddprun
