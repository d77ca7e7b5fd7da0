// SPDX-License-Identifier: MIT
// Finds the rank that keeps all others waiting, from their positions when nothing moved any more.
#pragma once

#include "launch/failure_report.h"

#include <optional>

namespace ddprun {

// Judges an attempt, all nodes together, that ended because a worker stalled, or in which a collective timed out:
// `lost` is then the worker that reported the timeout, otherwise null. Returns nothing if all were moving or failed by
// themselves.
std::optional<LaunchResult> judge_hang(const AttemptEnd& end, const WorkerEnd* lost);

}  // namespace ddprun
