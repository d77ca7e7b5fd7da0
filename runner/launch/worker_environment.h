// SPDX-License-Identifier: MIT
#pragma once

#include "launch/launcher.h"

#include <string>
#include <vector>

namespace ddprun {

// Returns "NAME=value" for the plan's worker number `index`: the launcher's own environment, the plan's additions, and
// the worker's place (worker_process.h); later ones win. `store` is where the ranks meet.
std::vector<std::string> worker_environment(const LaunchPlan& plan, int index, const std::string& store);

// Describes that worker, for its log.
std::string place_text(const LaunchPlan& plan, int index);

}  // namespace ddprun
