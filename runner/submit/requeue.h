// SPDX-License-Identifier: MIT
// launch.requeue: puts a Slurm job that a signal has ended back into the queue.
#pragma once

#include "cluster/environment.h"

#include <string>

namespace ddprun {

// Returns this process's job, as scontrol names it: "12", or "12_3" for a task of an array. Throws UserError if there
// is none, or no scontrol to requeue it with.
std::string job_to_requeue(const Environment& environment);

// Has Slurm restart the job, unless it ends anyway: somebody has cancelled it, its time is up, or Slurm itself requeues
// it. Logs what it did; if Slurm refuses, that is an error in the log, because the run has ended well.
void requeue(const std::string& job);

}  // namespace ddprun
