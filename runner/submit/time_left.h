// SPDX-License-Identifier: MIT
// How long Slurm lets a job run.
#pragma once

#include "cluster/environment.h"

#include <optional>
#include <string_view>

namespace ddprun {

// What squeue says of this process's job, in seconds. Nothing outside of a job, without a squeue that answers, and for
// a job without a limit. One request to Slurm's controller: for one process of a job, not for each.
std::optional<double> slurm_time_left(const Environment& environment);

// "5:07", "1:00:00" or "2-00:00:00" in seconds; nothing for another text ("UNLIMITED").
std::optional<double> parse_time_left(std::string_view text);

}  // namespace ddprun
