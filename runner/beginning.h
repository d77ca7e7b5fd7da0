// SPDX-License-Identifier: MIT
// What bin/ddprun hands to lib/ddprun/program.so, which it loads with LibTorch.
#pragma once

#include <csignal>

namespace ddprun {

struct Beginning {
  int argc = 0;
  char** argv = nullptr;
  sigset_t mask{};  // the signals that the process was started with blocked; now those of early_signals.h are, too
  bool set_spin = false;  // GOMP_SPINCOUNT stands in the environment for the libraries, and is not the user's
};

// The function of program.so that runs the program and returns its exit code.
inline constexpr auto kProgramFunction = "ddprun_program";
using ProgramFunction = int(const Beginning&);

}  // namespace ddprun
