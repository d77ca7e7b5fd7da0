// SPDX-License-Identifier: MIT
// Another program, run to its end: a scheduler's.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

struct ProgramEnd {
  int exit_code = 0;   // 128 + the signal where one killed it
  std::string output;  // of both its streams
};

// Runs command[0], found on PATH, with this on its standard input. Throws UserError where there is no such program, and
// std::system_error where it cannot be started.
ProgramEnd run_program(const std::vector<std::string>& command, const std::string& input = "");

// Whether a program of this name is on PATH.
bool has_program(const std::string& name);

}  // namespace ddprun
