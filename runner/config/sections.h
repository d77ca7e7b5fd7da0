// SPDX-License-Identifier: MIT
// Reads the sections of an experiment that have keys of their own. Each function is the only declaration of its keys.
#pragma once

#include "config/experiment.h"

#include <ddprun/options.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace ddprun {

TrainerConfig read_trainer(Options& options);
PretrainedConfig read_pretrained(Options& options);
ScheduleConfig read_schedule(Options& options);  // including the key `name`
EarlyStoppingConfig read_early_stopping(Options& options);
CheckpointConfig read_checkpoint(Options& options);
PredictionsConfig read_predictions(Options& options);
LaunchConfig read_launch(Options& options);
ResourcesConfig read_resources(Options& options);
std::filesystem::path read_run_dir(Options& options);

// Reads keys that several sections have alike.
std::string read_monitor(Options& options, std::string_view fallback, std::string_view help);
bool read_maximize(Options& options, const std::string& metric);                                    // the key `mode`
StepRange read_steps(Options& options, const char* fallback, int64_t most, std::string_view help);  // the key `steps`
// Returns the patterns in `value`, which is the option of this name, or a part of it.
NamePatterns patterns_in(const Value& value, Options& options, const std::string& name);
NamePatterns read_patterns(Options& options, const std::string& name, std::string_view help,
                           std::string_view type = "string | list of string");

// Limits numbers in an experiment that nothing else bounds.
inline constexpr int64_t kMost = 1'000'000'000;  // far beyond any run; keeps products of two within an int64
inline constexpr double kLargest = std::numeric_limits<double>::max();

}  // namespace ddprun
