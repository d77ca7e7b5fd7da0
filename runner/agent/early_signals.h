// SPDX-License-Identifier: MIT
// Handles SIGTERM and SIGUSR1 until the run takes over. They are blocked from the program's first moment on, since the
// kernel discards what the first process of a container does not handle. While a run is being prepared they end the
// process: nothing has started, so it can be run again.
#pragma once

#include <csignal>

namespace ddprun {

// Takes over from main.cpp, which has blocked the signals: `mask` is what the process was started with.
void hold_early_signals(const sigset_t& mask) noexcept;

// Lets the signals act as they did when the program started, for commands that do not train.
void release_early_signals() noexcept;

// Ends the process as EarlySignals does on this signal, which may be one of those that act as at the program's start.
[[noreturn]] void end_unbegun(int signal) noexcept;

// Ends the process with kExitPreempted on these signals while it lives, also if they came before; later ones wait
// (launch/signal_inbox.h).
// SIGINT and SIGHUP act meanwhile as they did when the program started.
class EarlySignals {
 public:
  EarlySignals();
  ~EarlySignals();
  EarlySignals(const EarlySignals&) = delete;
  EarlySignals& operator=(const EarlySignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ddprun
