// SPDX-License-Identifier: MIT
#pragma once

#include "launch/launcher.h"

#include <string>
#include <vector>

namespace ddprun {

// "NAME=value" for the plan's worker number `index`: the launcher's own environment, what the plan adds, and the
// worker's place (worker_process.h); the later wins. `store` is where the ranks meet.
std::vector<std::string> worker_environment(const LaunchPlan& plan, int index, const std::string& store);

// That worker in words, for its log.
std::string place_text(const LaunchPlan& plan, int index);

}  // namespace ddprun
