// SPDX-License-Identifier: MIT
// The names of the commands, and what each takes.
#pragma once

#include "command_line/arguments.h"

#include <span>
#include <string_view>

namespace CLI {
class App;
}

namespace ddprun {

struct Command {
  std::string_view name;
  const char* help;
  void (*add_options)(CLI::App& command, Arguments& arguments);
};

std::span<const Command> commands();  // in the order of --help

}  // namespace ddprun
