// SPDX-License-Identifier: MIT
// A Slurm job's time: when it ends, and how the job is put back into the queue after it (launch.requeue).
#pragma once

#include "cluster/setting.h"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Returns this process's job, as scontrol names it: "12", or "12_3" for a task of an array. Throws UserError if there
// is none, or no scontrol to requeue it with.
std::string job_to_requeue(const Environment& environment);

// Has Slurm restart the job, unless it ends anyway: somebody has cancelled it, its time is up, or Slurm itself requeues
// it. Logs what it did; if Slurm refuses, that is an error in the log, because the run has ended well.
void requeue(const std::string& job);

// How long Slurm lets a job run.

// Returns what squeue says about this process's job, in seconds, or nothing outside of a job, if squeue does not
// answer, and for a job without a limit. Sends one request to Slurm's controller: call it in one process per job, not
// in each.
std::optional<double> slurm_time_left(const Environment& environment);

// Converts "5:07", "1:00:00" or "2-00:00:00" to seconds; returns nothing for any other text ("UNLIMITED").
std::optional<double> parse_time_left(std::string_view text);

}  // namespace ddprun
