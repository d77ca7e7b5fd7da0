// SPDX-License-Identifier: MIT
// Reads which plugins an experiment names, and the objective: each a map with the plugin's name among its options.
#pragma once

#include "config/experiment.h"
#include "config/yaml_reader.h"

#include <ddprun/value.h>

namespace ddprun {

// Sets model, dataset, optimizer, objective, loggers and callbacks. The keys of a choice that are not its plugin's name
// stay its options. Mistakes are appended to `problems`; nothing is said of a section whose key is misspelt, since that
// key is reported as unknown.
void read_plugins(const Value& config, Experiment& experiment, Problems& problems);

}  // namespace ddprun
