// SPDX-License-Identifier: MIT
// The commands of the program that need LibTorch. Each returns the exit code, and throws UserError for mistakes of the
// user.
#pragma once

#include "agent/checked_experiment.h"
#include "command_line/arguments.h"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct CommandFunction {
  std::string_view name;                   // in commands()
  int (*run)(const Arguments& arguments);  // null: this build was made without its feature (DDPRUN_FEATURES)
  std::string_view feature = {};           // that has the command; empty: none
};

// The commands of all features, in a library of their own (runner/features).
std::vector<CommandFunction> feature_commands();

// Runs a command: one of `others`, of those below, or of plain_commands.h.
int run_command(const Arguments& arguments, const std::vector<CommandFunction>& others);

int run(const Arguments& arguments);
int resume(const Arguments& arguments);
int evaluate(const Arguments& arguments);
int predict(const Arguments& arguments);
int export_run(const Arguments& arguments);
int verify(const Arguments& arguments);
int show_check(const Arguments& arguments);
int show_data(const Arguments& arguments);
int init(const Arguments& arguments);
int submit(const Arguments& arguments);
int list_keys(const Arguments& arguments);
int plugins(const Arguments& arguments);
int show_schema(const Arguments& arguments);

int complete(const std::vector<std::string>& words);  // `complete`, called by the build

// Trains what the command says, with these overrides: what `run` and others that train have in common.
int train(const Arguments& arguments, const std::vector<std::string>& overrides);

int show_gradient_check(const CheckedExperiment& checked);       // `check --gradients`
int show_exact_check(const Arguments& arguments, bool sharded);  // `check --exact`; sharded: with trainer.shards
int show_config(const Arguments& arguments);                     // `run --cfg`

}  // namespace ddprun
