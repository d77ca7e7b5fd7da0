// SPDX-License-Identifier: MIT
#include "cli/arguments.h"

#include "launch/worker_process.h"

#include <ddprun/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

constexpr auto kCommands =
    std::to_array<std::string_view>({"run", "check", "resume", "config", "keys", "plugins", "worker"});

constexpr const char* kExamples = R"(
Examples:
  ddprun experiments/mnist.yaml                       train on all GPUs, or on the CPU
  ddprun experiments/mnist.yaml launch.workers=2 trainer.max_epochs=3
  ddprun experiments/mnist.yaml model=mlp model.hidden=512 optimizer=adam
  ddprun --cfg experiments/mnist.yaml                 what it is made of, and from which files
  ddprun check experiments/mnist.yaml                 find every mistake without training
  ddprun resume outputs/mnist/latest                  go on after Ctrl-C, a crash or kill -9
  ddprun keys                                         every key of an experiment file
  ddprun plugins                                      the plugins found; `plugins show convnet` their options

Overrides: key=value changes a key, +key=value adds one, ++key=value does either, ~key removes one.
Exit codes: 0 done, 1 failed, 2 wrong usage or experiment, 75 saved and to be resumed, 128+N ended by signal N.)";

void add_overrides(CLI::App& command, Arguments& arguments) {
  command.add_option("overrides", arguments.overrides, "key=value ...: change the experiment for this run");
}

void add_run(CLI::App& app, Arguments& arguments, bool& show_config) {
  auto& run = *app.add_subcommand("run", "train an experiment; the word `run` may be left out");
  run.add_option("experiment", arguments.target, "an experiment's YAML file; also found in the installed configs")
      ->required();
  run.add_flag("--cfg", show_config, "print the composed experiment, each value with its file and line, and stop");
  add_overrides(run, arguments);
}

void add_commands(CLI::App& app, Arguments& arguments, bool& show_config) {
  add_run(app, arguments, show_config);
  auto& check =
      *app.add_subcommand("check", "find every mistake in an experiment and its plugins' options, without training");
  check.add_option("experiment", arguments.target, "an experiment's YAML file")->required();
  check.add_flag("--gradients", arguments.gradients,
                 "also compare the model's gradients with finite differences, on a few samples");
  add_overrides(check, arguments);
  auto& resume = *app.add_subcommand("resume", "go on with a run from its last good checkpoint");
  resume.add_option("run", arguments.target, "the run's folder: outputs/mnist/latest")->required();
  add_overrides(resume, arguments);
  app.add_subcommand("keys", "list every key of an experiment file with its default");
  auto& plugins = *app.add_subcommand("plugins", "list the plugins found");
  auto& show = *plugins.add_subcommand("show", "a plugin's options");
  show.add_option("plugin", arguments.target, "its name, or the path of its .so")->required();
  show.add_option("--kind", arguments.kind, "model, dataset, optimizer or logger, where several have the name");
  app.add_subcommand("worker", "")->group("");  // started by the launcher
}

// `ddprun experiments/mnist.yaml` and `ddprun --cfg experiments/mnist.yaml` mean `ddprun run ...`.
std::vector<std::string> with_command(std::vector<std::string> words) {
  const bool global = words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "--version";
  const bool named = !words.empty() && std::ranges::find(kCommands, words[0]) != kCommands.end();
  if (!global && !named) words.insert(words.begin(), "run");
  return words;
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments{.words = {argv, argv + argc}};
  bool show_config = false;
  CLI::App app{
      "ddprun trains a YAML experiment with distributed data parallelism.\n\n  ddprun EXPERIMENT [key=value ...]",
      "ddprun"};
  app.set_version_flag("--version", "ddprun " DDPRUN_VERSION);
  app.footer(kExamples);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("ddprun: error: ") + error.what() + "; `ddprun --help` tells the usage\n";
  });
  add_commands(app, arguments, show_config);
  auto words = with_command({argv + 1, argv + argc});
  try {
    if (words.empty()) throw CLI::CallForHelp();
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw Exit{app.exit(error) == 0 && argc > 1 ? kExitDone : kExitUsage};
  }
  arguments.command = show_config ? "config" : app.get_subcommands().front()->get_name();
  return arguments;
}

}  // namespace ddprun
