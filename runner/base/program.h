// SPDX-License-Identifier: MIT
// Other programs, run to their end: a scheduler's, git, a compiler; and where this one lies.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct ProgramOptions {
  std::string input = {};       // on its standard input
  double seconds = 0;           // then it is killed with all that it has started; 0: it has all the time it wants
  size_t most_bytes = 1 << 30;  // of its output: one that writes more is killed
  bool errors = true;           // its standard error is output too
};

struct ProgramEnd {
  int exit_code = 0;   // 128 + the signal where one killed it
  std::string output;  // of both its streams
  bool cut = false;    // by one of the limits
};

// Runs command[0], found on PATH. One with a limit of time leads a process group of its own, and has no signals
// blocked. Throws UserError where there is no such program, and std::system_error where it cannot be started.
ProgramEnd run_program(const std::vector<std::string>& command, const ProgramOptions& options = {});

// Whether a program of this name is on PATH.
bool has_program(const std::string& name);

std::filesystem::path own_program();  // this one's file

}  // namespace ddprun
