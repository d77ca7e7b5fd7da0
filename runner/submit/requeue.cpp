// SPDX-License-Identifier: MIT
#include "submit/requeue.h"

#include "base/log.h"
#include "base/program.h"
#include "cluster/slurm_job.h"

#include <ddprun/error.h>

namespace ddprun {
namespace {

constexpr double kPatience = 30;  // seconds to wait for a controller that does not answer

// Returns the value of "JobState=RUNNING" in scontrol's output; empty if it is not there.
std::string job_state(const std::string& shown) {
  const std::string key = "JobState=";
  const auto at = shown.find(key);
  if (at == std::string::npos) return "";
  const auto begin = at + key.size();
  return shown.substr(begin, shown.find_first_of(" \n", begin) - begin);
}

}  // namespace

std::string job_to_requeue(const Environment& environment) {
  const auto job = find_slurm_job(environment);
  if (!job)
    throw UserError(
        "launch.requeue: this is not a job of Slurm (SLURM_JOB_ID is not set), and nothing else is asked to start the "
        "run again; leave it out here: launch.requeue=false");
  if (!has_program("scontrol"))
    throw UserError(
        "launch.requeue: there is no scontrol on PATH, as in a container; let the batch script do it, outside: "
        "srun ...; test $? -eq 75 && scontrol requeue $SLURM_JOB_ID");
  return job->name;
}

void requeue(const std::string& job) try {
  const auto shown = run_program({"scontrol", "show", "job", "--oneliner", job}, {.seconds = kPatience});
  const auto state = job_state(shown.output);
  if (!state.empty() && state != "RUNNING")
    return log::info("job " + job + " is " + state + ": not requeued from here");
  const auto asked = run_program({"scontrol", "requeue", job}, {.seconds = kPatience});
  if (asked.exit_code != 0) return log::error("scontrol requeue " + job + ": " + asked.output);
  log::info("asked Slurm to start job " + job + " again");
} catch (const std::exception& error) {
  log::error("cannot requeue job " + job + ": " + error.what());
}

}  // namespace ddprun
