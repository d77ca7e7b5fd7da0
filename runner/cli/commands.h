// SPDX-License-Identifier: MIT
// The commands of the program. Each returns the exit code, and throws UserError for mistakes of the user.
#pragma once

#include "agent/checked_experiment.h"
#include "cli/arguments.h"

#include <span>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace ddprun {

struct Command {
  std::string_view name;
  const char* help;
  void (*add_options)(CLI::App& command, Arguments& arguments);
  int (*run)(const Arguments& arguments);
};

std::span<const Command> commands();  // in the order of --help

int run_command(const Arguments& arguments);

int run(const Arguments& arguments);
int find_lr(const Arguments& arguments);
int resume(const Arguments& arguments);
int evaluate(const Arguments& arguments);
int predict(const Arguments& arguments);
int export_run(const Arguments& arguments);
int verify(const Arguments& arguments);
int replay(const Arguments& arguments);
int diff(const Arguments& arguments);
int report(const Arguments& arguments);
int list(const Arguments& arguments);
int watch(const Arguments& arguments);
int show_check(const Arguments& arguments);
int show_data(const Arguments& arguments);
int init(const Arguments& arguments);
int submit(const Arguments& arguments);
int list_experiments(const Arguments& arguments);
int list_keys(const Arguments& arguments);
int plugins(const Arguments& arguments);
int show_schema(const Arguments& arguments);
int env(const Arguments& arguments);
int show_docs(const Arguments& arguments);

int complete(const std::vector<std::string>& words);  // `complete`, called by the build

int show_gradient_check(const CheckedExperiment& checked);       // `check --gradients`
int show_exact_check(const Arguments& arguments, bool sharded);  // `check --exact`; sharded: with trainer.shards
int show_config(const Arguments& arguments);                     // `run --cfg`

}  // namespace ddprun
