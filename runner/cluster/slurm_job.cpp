// SPDX-License-Identifier: MIT
#include "cluster/slurm_job.h"

namespace ddprun {

std::optional<SlurmJob> find_slurm_job(const Environment& environment) {
  const auto job = environment.find({"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return std::nullopt;
  const auto array = environment.find("SLURM_ARRAY_JOB_ID"), task = environment.find("SLURM_ARRAY_TASK_ID");
  if (array && task) return SlurmJob{array->value + "_" + task->value, {*array, *task}};
  return SlurmJob{job->value, {*job}};
}

}  // namespace ddprun
