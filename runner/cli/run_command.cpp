// SPDX-License-Identifier: MIT
#include "agent/early_signals.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/multirun.h"
#include "command_line/commands.h"
#include "command_line/plain_commands.h"
#include "config/config_files.h"
#include "config/feature_section.h"
#include "plugin_host/plugin_build.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

namespace ddprun {
namespace {

constexpr auto kFunctions = std::to_array<CommandFunction>({{"run", run},
                                                            {"init", init},
                                                            {"check", show_check},
                                                            {"data", show_data},
                                                            {"submit", submit},
                                                            {"resume", resume},
                                                            {"evaluate", evaluate},
                                                            {"predict", predict},
                                                            {"export", export_run},
                                                            {"verify", verify},
                                                            {"keys", list_keys},
                                                            {"plugins", plugins},
                                                            {"schema", show_schema}});

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const auto& command : commands()) names.emplace_back(command.name);
  return names;
}

// Throws UserError if the word taken for an experiment looks like a mistaken command: `ddprun resum outputs/a`, `ddprun
// --build f.cpp check EXPERIMENT`.
void refuse_mistaken_command(const Arguments& arguments) {
  const auto& word = arguments.target;
  auto names = command_names();
  names.emplace_back("train");  // what others call it
  auto near = word == "train" ? "run" : nearest_name(word, names);
  if (near == "train") near = "run";
  Problems problems;
  if (near.empty() || ConfigFiles(config_search_path()).find_experiment(word, problems)) return;
  throw UserError(word == near
                      ? word + ": no such experiment; the command " + word + " must come first: ddprun " + word + " ..."
                      : word + ": no such command or experiment; did you mean ddprun " + near + "?");
}

// Throws UserError if it is a command of a feature that this build was made without.
const CommandFunction& function_of(std::string_view name, std::span<const CommandFunction> others) {
  for (const auto& functions : {std::span<const CommandFunction>(kFunctions), others}) {
    const auto found = std::ranges::find(functions, name, &CommandFunction::name);
    if (found == functions.end()) continue;
    if (found->run != nullptr) return *found;
    throw UserError(log::text(name, ": ", absence_text(found->feature), "; build it with that feature"));
  }
  throw std::logic_error(std::string(name) + " has no line in kFunctions");
}

}  // namespace

int run_command(const Arguments& given, const std::vector<CommandFunction>& others) {
  if (given.command == "run") refuse_mistaken_command(given);
  if (!starts_training(given) || !given.build.empty()) release_early_signals();
  auto arguments = given;
  for (const auto& folder : build_plugins(given.build))
    arguments.overrides.push_back("+plugin_path=" + folder.string());
  if (const auto code = run_plain_command(arguments)) return *code;
  return function_of(given.command, others).run(arguments);
}

}  // namespace ddprun
