// SPDX-License-Identifier: MIT
// Calls plugins' hooks, so that an error says which plugin it came from, and a crash in one is not taken for another's.
#pragma once

#include "base/current_op.h"

#include <ddprun/error.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ddprun {

using Hook = CurrentOp;  // of a plugin that an experiment names, by its section there: {"loggers[0]", "metrics"}

// What errors of hooks carry besides their text, which is "<section>: <problem>".
struct FromPlugin {
  std::string section;
  std::string problem;
};

// A hook threw a UserError, or the plugins do not measure what a section of the experiment monitors.
class PluginMistake : public UserError, public FromPlugin {
 public:
  explicit PluginMistake(FromPlugin from)
      : UserError(from.section + ": " + from.problem), FromPlugin(std::move(from)) {}
};

// A hook threw any other exception.
class PluginFailure : public std::runtime_error, public FromPlugin {
 public:
  explicit PluginFailure(FromPlugin from)
      : std::runtime_error(from.section + ": " + from.problem), FromPlugin(std::move(from)) {}
};

// Rethrows the exception being handled as one of the two above. Out-of-memory errors and failed collectives within the
// hook are not the plugin's fault and stay as they are, and so do these two themselves: an error belongs to the
// innermost hook.
[[noreturn]] void rethrow_from(const Hook& hook);

template <class Call>
decltype(auto) in_plugin(const Hook& hook, Call&& call) {
  const CurrentOpScope scope(hook);
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    rethrow_from(hook);
  }
}

}  // namespace ddprun
