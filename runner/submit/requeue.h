// SPDX-License-Identifier: MIT
// launch.requeue: a job of Slurm that a signal has ended is put into the queue again.
#pragma once

#include "cluster/environment.h"

#include <string>

namespace ddprun {

// This process's job, as scontrol names it: "12", or "12_3" for a task of an array. Throws UserError where there is
// none, or no scontrol to requeue it with.
std::string job_to_requeue(const Environment& environment);

// Has Slurm start the job again. Not where it ends anyway: somebody has cancelled it, its time is up, or Slurm itself
// requeues it. Tells what it did; a refusal of Slurm's is an error in the log, for the run has ended well.
void requeue(const std::string& job);

}  // namespace ddprun
