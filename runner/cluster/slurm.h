// SPDX-License-Identifier: MIT
// What Slurm says to its jobs: which one this is, and its shorthands for lists of nodes and of task counts.
#pragma once

#include "cluster/setting.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// Expands "n[001-003,7],gpu-a[1-2]-[1-2]" to its hosts in Slurm's order: the last bracket varies fastest. Throws
// UserError for a malformed list and one of more than 65536 hosts.
std::vector<std::string> expand_hosts(const Setting& list);

// Expands "2(x3),1" to 2, 2, 2, 1: the tasks of each node.
std::vector<int> expand_task_counts(const Setting& list);

// The Slurm job that this process belongs to.
struct SlurmJob {
  std::string name;           // as scontrol takes it: "12", or "12_3" for a task of an array
  std::vector<Setting> from;  // the job's variable, or the array's and the task's
};

// Returns nothing outside of a job.
std::optional<SlurmJob> find_slurm_job(const Environment& environment);

}  // namespace ddprun
