// SPDX-License-Identifier: MIT
// What the commands do, each returning the program's exit code. All throw UserError for mistakes of the user.
#pragma once

#include "agent/checked_experiment.h"
#include "cli/arguments.h"
#include "config/experiment.h"

#include <filesystem>
#include <vector>

namespace ddprun {

int run_command(const Arguments& arguments);  // picks one of those below

int train(const Arguments& arguments);
int resume(const Arguments& arguments);
int evaluate(const Arguments& arguments);
int predict(const Arguments& arguments);
int export_weights(const Arguments& arguments);
int verify(const Arguments& arguments);
int report(const Arguments& arguments);
int list(const Arguments& arguments);
int upload(const Arguments& arguments);
int watch(const Arguments& arguments);
int show_check(const Arguments& arguments);
int show_data(const Arguments& arguments);
int submit(const Arguments& arguments);
int check_gradients(const CheckedExperiment& checked);
int show_config(const Arguments& arguments);
int show_experiments();
int show_keys(const Arguments& arguments);
int show_plugins(const Arguments& arguments);
int show_environment(const Arguments& arguments);

// Where experiments and groups lie: $DDPRUN_CONFIG_PATH (separated by colons), then the program's own folder of
// configs.
std::vector<std::filesystem::path> config_search_path();

}  // namespace ddprun
