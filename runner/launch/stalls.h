// SPDX-License-Identifier: MIT
// Where all workers of a node stand, for a report of a hang: here, or at another node of the run.
#pragma once

#include "launch/launcher.h"
#include "launch/worker.h"

#include <chrono>
#include <memory>
#include <vector>

namespace ddprun {

using Workers = std::vector<std::unique_ptr<Worker>>;

// Whether one of them has not moved for so long.
bool any_stalled(const Workers& workers, std::chrono::steady_clock::time_point awake_since, double seconds);

// Notes it with each worker that runs. Those that look as if they hang are asked what they are doing; the answers are
// waited for, but not long.
void note_stalls(const Workers& workers, const LaunchPlan& plan, std::chrono::steady_clock::time_point awake_since);

}  // namespace ddprun
