// SPDX-License-Identifier: MIT
// Finds the rank that keeps all others waiting, from their positions when nothing moved any more.
#pragma once

#include "launch/failure_report.h"
#include "launch/launcher.h"
#include "launch/worker_handle.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace ddprun {

// Judges an attempt, all nodes together, that ended because a worker stalled, or in which a collective timed out:
// `lost` is then the worker that reported the timeout, otherwise null. Returns nothing if all were moving or failed by
// themselves.
std::optional<LaunchResult> judge_hang(const AttemptEnd& end, const WorkerEnd* lost);

using Workers = std::vector<std::unique_ptr<WorkerHandle>>;  // of one node

// Returns true if one of them has not moved for that long; one that is still starting counts only if asked for.
bool any_stalled(const Workers& workers, std::chrono::steady_clock::time_point awake_since, double seconds,
                 bool also_starting);

// Records what each running worker is doing, for the report of a hang here or at another node of the run. Asks those
// that look hung, and waits briefly for the answers.
void note_stalls(const Workers& workers, const LaunchPlan& plan, std::chrono::steady_clock::time_point awake_since);

}  // namespace ddprun
