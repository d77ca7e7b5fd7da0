// SPDX-License-Identifier: MIT
// The Slurm job that this process belongs to.
#pragma once

#include "cluster/environment.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct SlurmJob {
  std::string name;           // as scontrol takes it: "12", or "12_3" for a task of an array
  std::vector<Setting> from;  // the job's variable, or the array's and the task's
};

// Returns nothing outside of a job.
std::optional<SlurmJob> find_slurm_job(const Environment& environment);

}  // namespace ddprun
