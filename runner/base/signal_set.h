// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>
#include <cstring>
#include <string>

namespace ddprun {

// Makes a set from signal numbers in any container.
template <class Signals>
sigset_t signal_set(const Signals& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

// Returns "SIGSEGV", or "signal 77" if it has no name.
inline std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

}  // namespace ddprun
