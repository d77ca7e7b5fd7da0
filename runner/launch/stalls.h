// SPDX-License-Identifier: MIT
// Records what all workers of a node are doing, for the report of a hang here or at another node of the run.
#pragma once

#include "launch/launcher.h"
#include "launch/worker.h"

#include <chrono>
#include <memory>
#include <vector>

namespace ddprun {

using Workers = std::vector<std::unique_ptr<Worker>>;

// Returns true if one of them has not moved for that long.
bool any_stalled(const Workers& workers, std::chrono::steady_clock::time_point awake_since, double seconds);

// Records it for each running worker. Asks those that look hung what they are doing, and waits briefly for the answers.
void note_stalls(const Workers& workers, const LaunchPlan& plan, std::chrono::steady_clock::time_point awake_since);

}  // namespace ddprun
