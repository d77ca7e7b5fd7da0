// SPDX-License-Identifier: MIT
// Where all workers of a node stand, for a report of a hang: here, or at another node of the run.
#pragma once

#include "launch/launcher.h"
#include "launch/worker.h"

#include <chrono>
#include <memory>
#include <vector>

namespace ddprun {

// Notes it with each worker that runs. Those that look as if they hang are asked what they are doing; the answers are waited for, but
// not long: a process that is stopped cannot give one.
void note_standstills(const std::vector<std::unique_ptr<Worker>>& workers, const LaunchPlan& plan,
                      std::chrono::steady_clock::time_point awake_since);

}  // namespace ddprun
