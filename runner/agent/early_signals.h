// SPDX-License-Identifier: MIT
// SIGTERM and SIGUSR1 before anybody takes them. They wait from the program's first moment on, for the kernel throws
// away what the first process of a container does not handle; while a run is made ready they end it, as nothing has
// begun: it can be run again.
#pragma once

namespace ddprun {

// To be called before the libraries are initialised, which takes a tenth of a second and more.
void hold_early_signals() noexcept;

// For commands that do not train: the signals act as they did when the program was started.
void release_early_signals() noexcept;

// While it lives, these signals end the process with kExitPreempted, also where they came before; later ones wait
// (launch/signal_inbox.h).
class EarlySignals {
 public:
  EarlySignals();
  ~EarlySignals();
  EarlySignals(const EarlySignals&) = delete;
  EarlySignals& operator=(const EarlySignals&) = delete;
};

}  // namespace ddprun
