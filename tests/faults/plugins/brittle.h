// SPDX-License-Identifier: MIT
// What the hooks of these plugins do: nothing, but for the one that $BRITTLE names, as
// <hook>:<call>:<rank>:<attempt>:<how>. Calls are counted from 1, and are those of one process.
#pragma once

#include <ddprun/error.h>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace brittle {

inline std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

[[noreturn]] inline void fail(const std::string& how) {
  if (how == "throw") throw std::runtime_error("a hook that is broken");
  if (how == "mistake") throw ddprun::UserError("an input that is wrong");
  if (how == "odd") throw 42;
  if (how == "exit") {
    std::atexit(std::abort);  // as a library's clean-up may end, while other threads still use the library
    std::exit(0);
  }
  if (how == "_exit") ::_exit(0);
  while (how == "hang") ::pause();
  std::raise(how == "abort" ? SIGABRT : SIGSEGV);
  std::abort();
}

// Called by each hook with its own name: "model.step".
inline void reach(const std::string& hook) {
  static std::atomic<int> calls = 0;
  const auto wanted = variable("BRITTLE", "");
  if (!wanted.starts_with(hook + ":")) return;
  const auto here =
      hook + ":" + std::to_string(++calls) + ":" + variable("RANK", "0") + ":" + variable("DDPRUN_ATTEMPT", "0") + ":";
  if (wanted.starts_with(here)) fail(wanted.substr(here.size()));
}

}  // namespace brittle
