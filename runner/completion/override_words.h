// SPDX-License-Identifier: MIT
// Completes overrides of an experiment: keys, and their values.
#pragma once

#include "completion/completion.h"

#include <ddprun/value.h>

#include <string>
#include <vector>

namespace ddprun {

// Returns what "optimizer.l", "model=m" or "+loggers=" may become. `experiment` is the composed one, or null if there
// is none: then the options of all plugins are meant.
std::vector<Candidate> complete_override(const std::string& word, const Value& experiment, const Description& schema);

// Returns the names of the plugins of a kind.
std::vector<Candidate> plugin_names(const std::string& kind, const Description& schema);

}  // namespace ddprun
