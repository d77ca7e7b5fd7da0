// SPDX-License-Identifier: MIT
// Calls of plugins' hooks: an error that comes out of one says whose it is, and a crash in one can be told from others.
#pragma once

#include "base/current_op.h"

#include <ddprun/error.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ddprun {

using Hook = CurrentOp;  // of a plugin that an experiment names, by its section there: {"loggers[0]", "metrics"}

// What errors of hooks have beside their text, which is "<section>: <problem>".
struct FromPlugin {
  std::string section;
  std::string problem;
};

// A hook threw a UserError; or what the plugins measure is not what a section of the experiment follows.
class PluginMistake : public UserError, public FromPlugin {
 public:
  explicit PluginMistake(FromPlugin from)
      : UserError(from.section + ": " + from.problem), FromPlugin(std::move(from)) {}
};

// A hook threw anything else.
class PluginFailure : public std::runtime_error, public FromPlugin {
 public:
  explicit PluginFailure(FromPlugin from)
      : std::runtime_error(from.section + ": " + from.problem), FromPlugin(std::move(from)) {}
};

// Throws the exception that is being handled as one of the two above. Those of memory that is out and of collectives
// within the hook are not the plugin's and stay as they are, and so do these two themselves: the innermost hook is
// whose error it is.
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
