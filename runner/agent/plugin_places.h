// SPDX-License-Identifier: MIT
// Where an experiment names its plugins, for errors that come out of their hooks, its objective, and the metrics that
// it follows.
#pragma once

#include "config/experiment.h"
#include "plugin_host/plugin_call.h"

#include <map>
#include <string>

namespace ddprun {

// {"model": "mnist.yaml:3:10: model: plugin lenet"}
std::map<std::string, std::string> plugin_places(const Experiment& experiment);

// The error with its plugin's place before it.
UserError located(const FromPlugin& error, const Experiment& experiment);

}  // namespace ddprun
