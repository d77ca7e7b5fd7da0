// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>

namespace ddprun {

// Of signals' numbers, in any container.
template <class Signals>
sigset_t signal_set(const Signals& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

}  // namespace ddprun
