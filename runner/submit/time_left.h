// SPDX-License-Identifier: MIT
// How long Slurm lets a job run.
#pragma once

#include "cluster/environment.h"

#include <optional>
#include <string_view>

namespace ddprun {

// Returns what squeue says about this process's job, in seconds, or nothing outside of a job, if squeue does not
// answer, and for a job without a limit. Sends one request to Slurm's controller: call it in one process per job, not
// in each.
std::optional<double> slurm_time_left(const Environment& environment);

// Converts "5:07", "1:00:00" or "2-00:00:00" to seconds; returns nothing for any other text ("UNLIMITED").
std::optional<double> parse_time_left(std::string_view text);

}  // namespace ddprun
