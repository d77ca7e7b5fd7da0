// SPDX-License-Identifier: MIT
// Which rank keeps all others waiting, told from where they stood when nothing moved any more.
#pragma once

#include "launch/failure_report.h"

#include <optional>

namespace ddprun {

// Of an attempt that was ended for it, all nodes together, or in which a collective ran out of time: `lost` is then who
// told it, else null. Nothing where all have moved, or have failed themselves.
std::optional<LaunchResult> judge_hang(const AttemptEnd& end, const WorkerEnd* lost);

}  // namespace ddprun
