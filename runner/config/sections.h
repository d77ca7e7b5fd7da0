// SPDX-License-Identifier: MIT
// The sections of an experiment with keys of their own. Each function is the one declaration of its section's keys.
#pragma once

#include <ddprun/options.h>

#include "config/experiment.h"

namespace ddprun {

TrainerConfig read_trainer(Options& options);
EarlyStoppingConfig read_early_stopping(Options& options);
CheckpointConfig read_checkpoint(Options& options);
LaunchConfig read_launch(Options& options);
std::filesystem::path read_run_dir(Options& options);

// "1ep", "200st", "10min", "30s", "2h"; nothing for another text, or less than one.
std::optional<Interval> parse_interval(std::string_view text);

}  // namespace ddprun
