// SPDX-License-Identifier: MIT
// Which rank keeps all others waiting, told from where they stood when nothing moved any more.
#pragma once

#include "launch/failure_report.h"

namespace ddprun {

// Of an attempt that was ended for it, all nodes together. At least one worker has a standstill.
LaunchResult judge_hang(const AttemptEnd& end);

}  // namespace ddprun
