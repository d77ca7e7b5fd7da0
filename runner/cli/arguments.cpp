// SPDX-License-Identifier: MIT
#include "cli/arguments.h"

#include "base/log.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/launch_flags.h"
#include "launch/worker_process.h"

#include <ddprun/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace ddprun {
namespace {

constexpr const char* kWorker = "worker";
constexpr const char* kQuiet = "--quiet";
constexpr const char* kVerbose = "--verbose";

// The experiment may also stand after the overrides.
void take_experiment(Arguments& arguments) {
  const auto is_override = [](const std::string& word) {
    return word.find('=') != std::string::npos || word[0] == '~';
  };
  const auto experiment = std::ranges::find_if_not(arguments.overrides, is_override);
  if (arguments.target.empty() || !is_override(arguments.target) || experiment == arguments.overrides.end()) return;
  auto name = *experiment;
  arguments.overrides.erase(experiment);
  arguments.overrides.insert(arguments.overrides.begin(), std::exchange(arguments.target, std::move(name)));
}

// The first word after the run names the checkpoint, unless it is an override.
void take_checkpoint(Arguments& arguments) {
  auto& words = arguments.overrides;
  if (words.empty() || words[0].find('=') != std::string::npos || words[0].starts_with("~")) return;
  arguments.checkpoint = words[0];
  words.erase(words.begin());
}

// How much is told, of all commands and wherever the flag stands; workers inherit the variable.
std::vector<std::string> without_log_flags(std::vector<std::string> words) {
  for (const auto* flag : {kQuiet, kVerbose}) {
    if (std::erase(words, flag) > 0) ::setenv(log::kLevelVariable, flag + 2, /*overwrite=*/1);
  }
  return words;
}

// `ddprun experiments/mnist.yaml` and `ddprun --cfg experiments/mnist.yaml` mean `ddprun run ...`.
std::vector<std::string> with_command(std::vector<std::string> words) {
  const bool global = words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "--version";
  const bool named =
      !words.empty() && (words[0] == kWorker || std::ranges::count(commands(), words[0], &Command::name));
  if (!global && !named) words.insert(words.begin(), "run");
  return words;
}

bool is_one_of(const std::string& command, std::initializer_list<std::string_view> commands) {
  return std::ranges::find(commands, command) != commands.end();
}

}  // namespace

bool starts_training(const Arguments& arguments) {
  return is_one_of(arguments.command, {"run", "resume"}) && !arguments.show_config;
}

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments{.words = {argv, argv + argc}};
  CLI::App app{"train a YAML experiment with distributed data parallelism", "ddprun"};
  app.set_version_flag("--version", "ddprun " DDPRUN_VERSION);
  app.add_flag_callback(kQuiet, [] {}, "tell warnings and errors alone; also behind a command");
  app.add_flag_callback(kVerbose, [] {}, "tell what is loaded, too");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("ddprun: error: ") + error.what() + "; `ddprun --help` tells the usage\n";
  });
  for (const auto& command : commands())
    command.add_options(*app.add_subcommand(std::string(command.name), command.help), arguments);
  app.add_subcommand(kWorker, "")->group("");  // started by the launcher
  use_plain_help(app);
  auto words = with_plain_launch_flags(with_command(without_log_flags({argv + 1, argv + argc})));
  try {
    if (words.empty()) throw CLI::CallForHelp();
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw Exit{app.exit(error) == 0 && argc > 1 ? kExitDone : kExitUsage};
  }
  arguments.command = app.get_subcommands().front()->get_name();
  if (is_one_of(arguments.command, {"run", "check", "data"})) take_experiment(arguments);
  if (is_one_of(arguments.command, {"evaluate", "predict", "export"})) take_checkpoint(arguments);
  return arguments;
}

}  // namespace ddprun
