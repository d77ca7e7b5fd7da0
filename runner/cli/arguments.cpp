// SPDX-License-Identifier: MIT
#include "cli/arguments.h"

#include "base/log.h"
#include "cli/help.h"
#include "cli/launch_flags.h"
#include "launch/worker_process.h"

#include <ddprun/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace ddprun {
namespace {

constexpr auto kCommands = std::to_array<std::string_view>(
    {"run", "check", "data", "submit", "resume", "evaluate", "predict", "export", "verify", "upload", "report", "list",
     "watch", "config", "experiments", "keys", "plugins", "env", "worker"});  // the last one is the launcher's

constexpr const char* kQuiet = "--quiet";
constexpr const char* kVerbose = "--verbose";

void add_overrides(CLI::App& command, Arguments& arguments) {
  command.add_option("overrides", arguments.overrides, "key=value ...: change the experiment for this run");
}

void add_build(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--build", arguments.build,
                  "a plugin's source file, to be compiled if it has changed; may be repeated")
      ->type_name("FILE.cpp")
      ->allow_extra_args(false);
}

void add_run(CLI::App& app, Arguments& arguments, bool& show_config) {
  auto& run = *app.add_subcommand("run", "train an experiment; the word `run` may be left out");
  run.add_option("experiment", arguments.target, "an experiment's YAML file; also found in the installed configs")
      ->required();
  run.add_flag("--cfg", show_config, "print the composed experiment, each value with its file and line, and stop");
  run.add_flag("-m,--multirun", arguments.multirun,
               "one run after the other for each combination of values: optimizer.lr=0.1,0.01 model.hidden=64,128");
  add_build(run, arguments);
  add_launch_flags(run, arguments.launch);
  add_overrides(run, arguments);
}

void add_submit(CLI::App& app, Arguments& arguments) {
  auto& submit = *app.add_subcommand("submit", "check an experiment, and hand it to a scheduler with its `resources:`");
  auto& slurm = *submit.add_flag("--slurm", arguments.slurm, "as a batch job, by sbatch");
  auto& kubernetes = *submit.add_flag("--kubernetes", arguments.kubernetes, "as a Job, by kubectl apply");
  slurm.excludes(&kubernetes);
  submit.add_flag("--dry-run", arguments.dry_run, "print the script or manifest, and submit nothing");
  submit.add_option("--out", arguments.out, "the file to write it to; an existing one is not touched")
      ->type_name("FILE");
  submit.add_option("experiment", arguments.target, "an experiment's YAML file")->required();
  add_overrides(submit, arguments);
}

// A run, which of its checkpoints, and where the experiment counts, overrides.
void add_target(CLI::App& command, Arguments& arguments, bool overrides) {
  command.add_option("run", arguments.target, "the run's folder: outputs/mnist/latest")->required();
  const auto* help = overrides
                         ? "best, last (the default), or a checkpoint's name or path; then key=value ... to change the "
                           "run's experiment"
                         : "best, last (the default), or a checkpoint's name or path";
  command.add_option("checkpoint", arguments.overrides, help)
      ->expected(0, overrides ? CLI::detail::expected_max_vector_size : 1);
}

void add_after_training(CLI::App& app, Arguments& arguments) {
  auto& evaluate = *app.add_subcommand("evaluate", "measure a checkpoint on the validation and test splits");
  add_target(evaluate, arguments, true);
  evaluate.add_flag("--json", arguments.json, "print one JSON object");
  auto& predict = *app.add_subcommand("predict", "write what a checkpoint predicts for each sample of a split");
  add_target(predict, arguments, true);
  predict.add_option("--split", arguments.split, "test by default")
      ->type_name("SPLIT")
      ->check(CLI::IsMember({"train", "val", "test"}));
  predict.add_option("--out", arguments.out, "the CSV file to make; an existing one is not touched")
      ->type_name("FILE")
      ->required();
  auto& weights = *app.add_subcommand("export", "write a checkpoint's weights as one file");
  add_target(weights, arguments, false);
  weights
      .add_option("--format", arguments.format,
                  "safetensors, or torch: for torch.load; by default as the file is called")
      ->check(CLI::IsMember({"safetensors", "torch"}));
  weights.add_option("--out", arguments.out, "the file to make; an existing one is not touched")
      ->type_name("FILE")
      ->required();
  auto& verify =
      *app.add_subcommand("verify", "check every file of a run's checkpoints; exit code 1 where one is broken");
  verify.add_option("run", arguments.target, "the run's folder, or one checkpoint's")->required();
  verify.add_flag("--json", arguments.json, "print one JSON object");
  auto& upload = *app.add_subcommand("upload", "send what a run's loggers could not send while it ran");
  upload.add_option("run", arguments.target, "the run's folder: outputs/mnist/latest")->required();
  add_overrides(upload, arguments);
}

void add_views(CLI::App& app, Arguments& arguments) {
  auto& report = *app.add_subcommand("report", "write a run, or several beside each other, as one HTML file");
  report.add_option("run", arguments.runs, "run folders: outputs/mnist/latest")->required();
  report.add_option("--out", arguments.out, "the file; by default RUN/report.html, or ./report.html for several runs")
      ->type_name("FILE");
  auto& list = *app.add_subcommand("list", "list the runs below a folder, the newest first");
  list.add_option("folder", arguments.target, "outputs by default");
  list.add_flag("--best", arguments.best_first, "the best first");
  list.add_flag("--json", arguments.json, "print a JSON array");
  auto& watch = *app.add_subcommand("watch", "show a run that goes on elsewhere, until its end");
  watch.add_option("run", arguments.target, "the run's folder: outputs/mnist/latest")->required();
  watch.add_option("--logger", arguments.logger, "the logger plugin that shows it; console by default")
      ->type_name("NAME");
}

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

void add_commands(CLI::App& app, Arguments& arguments, bool& show_config) {
  add_run(app, arguments, show_config);
  auto& check =
      *app.add_subcommand("check", "find every mistake in an experiment and its plugins' options, without training");
  check.add_option("experiment", arguments.target, "an experiment's YAML file")->required();
  auto& no_data = *check.add_flag("--no-data", arguments.no_data,
                                  "look neither at the data nor at the model on them: for machines that have none");
  check
      .add_flag("--gradients", arguments.gradients,
                "also compare the model's gradients with finite differences, on a few samples")
      ->excludes(&no_data);
  add_build(check, arguments);
  add_overrides(check, arguments);
  auto& data = *app.add_subcommand(
      "data",
      "look at an experiment's data: counts of each class, values, and a page of pictures as training sees them");
  data.add_option("experiment", arguments.target, "an experiment's YAML file")->required();
  data.add_option("--out", arguments.out, "the page, an HTML file; by default ./NAME_data.html")->type_name("FILE");
  add_build(data, arguments);
  add_overrides(data, arguments);
  add_submit(app, arguments);
  auto& resume = *app.add_subcommand("resume", "go on with a run from its last good checkpoint");
  resume.add_option("run", arguments.target, "the run's folder: outputs/mnist/latest")->required();
  add_launch_flags(resume, arguments.launch);
  add_overrides(resume, arguments);
  add_after_training(app, arguments);
  add_views(app, arguments);
  app.add_subcommand("experiments", "list the experiments that come with ddprun, a line each");
  app.add_subcommand("keys", "list every key of an experiment file with its default")
      ->add_option("word", arguments.target, "only a section (trainer), a key (batch) or what its text says");
  auto& plugins = *app.add_subcommand("plugins", "list the plugins found");
  auto& show = *plugins.add_subcommand("show", "a plugin's options");
  show.add_option("plugin", arguments.target, "its name, or the path of its .so")->required();
  show.add_option("--kind", arguments.kind, "model, dataset, optimizer or logger, where several have the name");
  auto& check_plugins = *plugins.add_subcommand("check", "load each in a process of its own, and tell what is wrong");
  check_plugins.add_option("plugin", arguments.plugins, "names, or paths of .so files; by default all that are found");
  check_plugins.callback([&arguments] { arguments.check_plugins = true; });
  auto& env =
      *app.add_subcommand("env", "tell how this process was started, and where it stands in a job of several nodes");
  env.add_flag("--json", arguments.json, "print one JSON object");
  add_launch_flags(env, arguments.launch);
  app.add_subcommand("worker", "")->group("");  // started by the launcher
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
  const bool named = !words.empty() && std::ranges::find(kCommands, words[0]) != kCommands.end();
  if (!global && !named) words.insert(words.begin(), "run");
  return words;
}

}  // namespace

std::vector<std::string> command_names() { return {kCommands.begin(), std::prev(kCommands.end())}; }

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments{.words = {argv, argv + argc}};
  bool show_config = false;
  CLI::App app{"train a YAML experiment with distributed data parallelism", "ddprun"};
  app.set_version_flag("--version", "ddprun " DDPRUN_VERSION);
  app.add_flag_callback(kQuiet, [] {}, "tell warnings and errors alone; also behind a command");
  app.add_flag_callback(kVerbose, [] {}, "tell what is loaded, too");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("ddprun: error: ") + error.what() + "; `ddprun --help` tells the usage\n";
  });
  add_commands(app, arguments, show_config);
  use_plain_help(app);
  auto words = with_plain_launch_flags(with_command(without_log_flags({argv + 1, argv + argc})));
  try {
    if (words.empty()) throw CLI::CallForHelp();
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw Exit{app.exit(error) == 0 && argc > 1 ? kExitDone : kExitUsage};
  }
  arguments.command = show_config ? "config" : app.get_subcommands().front()->get_name();
  if (arguments.command == "run" || arguments.command == "check" || arguments.command == "data" ||
      arguments.command == "config")
    take_experiment(arguments);
  if (arguments.command == "evaluate" || arguments.command == "predict" || arguments.command == "export")
    take_checkpoint(arguments);
  return arguments;
}

}  // namespace ddprun
