// SPDX-License-Identifier: MIT
// The commands of the program: to add one, write its function, and add a line to kCommands and one to kFunctions of
// cli/run_command.cpp, or of plain_commands.cpp if it needs no LibTorch, or its name to a feature.cmake if it is that
// feature's.
#include "command_line/commands.h"

#include "command_line/arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace ddprun {
namespace {

void add_overrides(CLI::App& command, Arguments& arguments,
                   const char* help = "key=value ...: change the experiment for this run") {
  command.add_option("overrides", arguments.overrides, help);
}

void add_build(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--build", arguments.build,
                  "a plugin's source file, to be compiled if it has changed; may be repeated")
      ->type_name("FILE.cpp")
      ->allow_extra_args(false);
}

// Adds the arguments of a command that takes an experiment.
void add_experiment(CLI::App& command, Arguments& arguments) {
  command.add_option("experiment", arguments.target, "an experiment's YAML file; also found in the installed configs")
      ->required();
  add_overrides(command, arguments);
}

void add_run_folder(CLI::App& command, Arguments& arguments) {
  command.add_option("run", arguments.target, "the run's folder: outputs/mnist/latest")->required();
}

void add_out(CLI::App& command, Arguments& arguments, const char* help, bool required = false) {
  command.add_option("--out", arguments.out, help)->type_name("FILE")->required(required);
}

void add_json(CLI::App& command, Arguments& arguments) { command.add_flag("--json", arguments.json, "print JSON"); }

// Adds the run, its checkpoint and, if the experiment matters, overrides.
void add_target(CLI::App& command, Arguments& arguments, bool overrides) {
  add_run_folder(command, arguments);
  const auto* help = overrides
                         ? "best, last (the default), or a checkpoint's name or path; then key=value ... to change the "
                           "run's experiment"
                         : "best, last (the default), or a checkpoint's name or path";
  command.add_option("checkpoint", arguments.overrides, help)
      ->expected(0, overrides ? CLI::detail::expected_max_vector_size : 1);
}

void add_run(CLI::App& run, Arguments& arguments) {
  run.add_flag("--cfg", arguments.show_config,
               "print the composed experiment, each value with its file and line, and exit");
  run.add_flag("-m,--multirun", arguments.multirun,
               "one run after the other for each combination of values: optimizer.lr=0.1,0.01 model.hidden=64,128");
  add_build(run, arguments);
  add_launch_flags(run, arguments.launch);
  add_experiment(run, arguments);
}

void add_find_lr(CLI::App& range_test, Arguments& arguments) {
  range_test.add_option("--from", arguments.from, "optimizer.lr in the first step (1e-7)")->type_name("LR");
  range_test.add_option("--to", arguments.to, "optimizer.lr in the last step (10)")->type_name("LR");
  range_test.add_option("--steps", arguments.steps, "training steps, fewer if the loss diverges (200)")->type_name("N");
  add_build(range_test, arguments);
  add_launch_flags(range_test, arguments.launch);
  add_experiment(range_test, arguments);
}

void add_check(CLI::App& check, Arguments& arguments) {
  auto& no_data = *check.add_flag("--no-data", arguments.no_data, "skip all checks that need the data");
  check
      .add_flag("--gradients", arguments.gradients,
                "also compare the model's gradients with finite differences, on a few samples")
      ->excludes(&no_data);
  check
      .add_flag("--exact", arguments.exact,
                "also train five steps on 1 and on 2 workers, and compare the bits that they end with")
      ->excludes(&no_data);
  add_build(check, arguments);
  add_experiment(check, arguments);
}

void add_data(CLI::App& data, Arguments& arguments) {
  add_out(data, arguments, "the HTML page to write; by default ./NAME_data.html");
  add_build(data, arguments);
  add_experiment(data, arguments);
}

void add_init(CLI::App& init, Arguments& arguments) {
  init.add_option("data", arguments.target,
                  "a folder of pictures in class folders, a text, or a table, a .csv, .tsv or .parquet file")
      ->required();
  add_overrides(init, arguments, "dataset.KEY=VALUE ...: options of the dataset, such as dataset.skip_unreadable=true");
  const auto add_of_table = [&](const char* name, std::string& value, const char* type, const char* help) {
    return init.add_option(name, value, help)->type_name(type)->group("Tables");
  };
  add_of_table("--target", arguments.target_column, "COLUMN",
               "what is to be learned; by default the column target, label, class or y, or else the last one");
  add_of_table("--input", arguments.input_columns, "A,B,C", "the columns to learn from; by default all others");
  add_of_table("--task", arguments.task, "TASK", "classification or regression, where whole numbers may be either")
      ->check(CLI::IsMember({"classification", "regression"}).description(""));
  init.add_flag("--drop-missing", arguments.drop_missing, "leave out rows in which a value is missing")
      ->group("Tables");
  add_out(init, arguments, "the experiment to write; by default ./FOLDER.yaml; must not exist");
}

void add_submit(CLI::App& submit, Arguments& arguments) {
  submit.add_flag("--slurm", arguments.slurm, "submit a batch job with sbatch");
  submit.add_flag("--dry-run", arguments.dry_run, "print the script without submitting it");
  add_out(submit, arguments, "the file to write it to; must not exist");
  add_experiment(submit, arguments);
}

void add_resume(CLI::App& resume, Arguments& arguments) {
  add_run_folder(resume, arguments);
  add_launch_flags(resume, arguments.launch);
  add_overrides(resume, arguments);
}

void add_evaluate(CLI::App& evaluate, Arguments& arguments) {
  add_target(evaluate, arguments, true);
  add_json(evaluate, arguments);
}

void add_predict(CLI::App& predict, Arguments& arguments) {
  add_target(predict, arguments, true);
  auto& split = *predict.add_option("--split", arguments.split, "test by default")
                     ->type_name("SPLIT")
                     ->check(CLI::IsMember({"train", "val", "test"}));
  predict.add_option("--input", arguments.inputs, "new files in place of a split, or patterns: 'photos/*.jpg'")
      ->type_name("FILE")
      ->excludes(&split);
  add_out(predict, arguments, "the CSV file to write; must not exist");
  predict.add_option("--html", arguments.page, "a page of the worst predictions, with their pictures")
      ->type_name("PAGE");
}

void add_export(CLI::App& command, Arguments& arguments) {
  add_target(command, arguments, false);
  command
      .add_option(
          "--format", arguments.format,
          "weights: safetensors, or torch for torch.load; the network: torchscript, pt2 for torch.export.load, or "
          "onnx; transformers: a folder for its from_pretrained(); by default, from the file's extension")
      ->check(CLI::IsMember({"safetensors", "torch", "torchscript", "pt2", "onnx", "transformers"}));
  command.add_flag("--raw", arguments.raw,
                   "the network takes images as bytes and gives probabilities: the file includes the dataset's "
                   "normalization");
  command.add_flag("--only-trainable", arguments.only_trainable,
                   "without the weights that never train: an adapter without the base below it; for checkpoints that "
                   "were saved with checkpoint.only_trainable");
  add_out(command, arguments, "the file to write, or the folder; must not exist, unless --force is given",
          /*required=*/true);
  command.add_flag("--force", arguments.force, "replace a file of that name, once the new one is whole");
}

void add_verify(CLI::App& verify, Arguments& arguments) {
  verify.add_option("run", arguments.target, "the run's folder, or one checkpoint's")->required();
  add_json(verify, arguments);
}

void add_report(CLI::App& report, Arguments& arguments) {
  report.add_option("run", arguments.runs, "run folders: outputs/mnist/latest")->required();
  add_out(report, arguments, "the file; by default RUN/report.html, or ./report.html for several runs");
  add_json(report, arguments);
  report.add_option("--rows", arguments.rows, "with --json: also the rows that count of these")
      ->check(CLI::IsMember({"metrics", "predictions", "confusion", "histograms"}))
      ->needs("--json");
}

void add_list(CLI::App& list, Arguments& arguments) {
  list.add_option("folder", arguments.target, "outputs by default");
  list.add_flag("--best", arguments.best_first, "list the best first");
  add_json(list, arguments);
}

void add_keys(CLI::App& keys, Arguments& arguments) {
  keys.add_option("word", arguments.target, "a section (trainer), a part of a key (batch), or words of its help");
}

void add_plugins(CLI::App& plugins, Arguments& arguments) {
  auto& show = *plugins.add_subcommand("show", "a plugin's options");
  show.add_option("plugin", arguments.target, "its name, or the path of its .so")->required();
  show.add_option("--kind", arguments.kind,
                  "model, dataset, optimizer, objective, callback or logger, if several have the name");
  auto& check = *plugins.add_subcommand("check", "load each plugin in its own process and report problems");
  check.add_option("plugin", arguments.plugins, "names, or paths of .so files; by default all found");
  check.callback([&arguments] { arguments.check_plugins = true; });
}

void add_schema(CLI::App& schema, Arguments& arguments) {
  schema.add_option("experiment", arguments.target, "an experiment, whose plugin_path is searched for plugins too");
  schema
      .add_option("--group", arguments.group,
                  "describe the files of a group that `defaults:` names: model, optimizer, trainer, logger ...")
      ->type_name("GROUP");
  add_out(schema, arguments, "the file to write, or to replace; standard output by default");
  add_build(schema, arguments);
}

void add_replay(CLI::App& replay, Arguments& arguments) {
  replay.add_option("run", arguments.target, "the run's folder")->required();
  replay.add_option("--step", arguments.step, "the step to come to")->required();
  replay.add_option("--workers", arguments.workers, "with trainer.shards any number; by default that of the run")
      ->check(CLI::Validator(CLI::PositiveNumber).description(""));
  replay
      .add_option("--without", arguments.without,
                  "also make the step without these samples: their numbers in the training split, 17,4711")
      ->type_name("IDS")
      ->delimiter(',')
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""));
  replay.add_option("--page", arguments.page, "the HTML page to write; by default ./NAME_step_N.html")
      ->type_name("FILE");
  add_out(replay, arguments,
          "also write what the steps compute to this file, for `ddprun diff` on another machine; must not exist");
}

void add_diff(CLI::App& diff, Arguments& arguments) {
  diff.add_option("runs", arguments.runs, "two run folders, or files of `ddprun replay --out`")
      ->required()
      ->expected(2);
}

void add_env(CLI::App& env, Arguments& arguments) {
  add_json(env, arguments);
  add_launch_flags(env, arguments.launch);
}

void add_docs(CLI::App& docs, Arguments& arguments) {
  docs.add_option("page", arguments.runs, "a page's name, or words that are looked for in all of them");
}

void add_nothing(CLI::App&, Arguments&) {}

constexpr auto kCommands = std::to_array<Command>({
    {"run", "train an experiment; the word `run` is optional", add_run},
    {"find-lr", "look for a learning rate: raise it from step to step, until the loss diverges", add_find_lr},
    {"init", "look at data of your own and write a first experiment for them", add_init},
    {"check", "find every mistake in an experiment and its plugins' options, without training", add_check},
    {"data", "show an experiment's data: class counts, values, and a page of pictures as training sees them", add_data},
    {"submit", "check an experiment and submit it to Slurm with its `resources:`", add_submit},
    {"resume", "resume a run from its last good checkpoint", add_resume},
    {"evaluate", "measure a checkpoint on the validation and test splits", add_evaluate},
    {"predict", "write a checkpoint's predictions for each sample of a split, or of new files", add_predict},
    {"export", "write a trained network, or only its weights, to one file that works without ddprun", add_export},
    {"verify", "check every file of a run's checkpoints; exit code 1 if one is broken", add_verify},
    {"replay", "make a step of a run again, compare its bits and show it from inside", add_replay},
    {"diff", "compare two runs and find the step and operator where they part", add_diff},
    {"report", "write a report on one run, or several compared, as one HTML file", add_report},
    {"list", "list the runs below a folder, newest first", add_list},
    {"experiments", "list the experiments that come with ddprun", add_nothing},
    {"keys", "list every key of an experiment file with its default", add_keys},
    {"plugins", "list the plugins found, or show or check one", add_plugins},
    {"schema", "write a JSON Schema of experiment files, with which editors complete and check them", add_schema},
    {"docs", "show the documentation: a page, or the sections that have a word", add_docs},
    {"env", "show how this process was started and its place in a multi-node job", add_env},
});

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace ddprun
