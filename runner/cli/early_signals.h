// SPDX-License-Identifier: MIT
// SIGTERM and SIGUSR1 while a run is being made ready, before anybody takes them: nothing has begun, so it can be run again.
#pragma once

namespace ddprun {

// While it lives, these signals end the process with kExitPreempted, where they are not blocked (launch/signal_inbox.h).
class EarlySignals {
 public:
  EarlySignals();
  ~EarlySignals();
  EarlySignals(const EarlySignals&) = delete;
  EarlySignals& operator=(const EarlySignals&) = delete;
};

}  // namespace ddprun
