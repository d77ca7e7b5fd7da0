// SPDX-License-Identifier: MIT
#include "submit/requeue.h"

#include "base/log.h"
#include "base/program.h"
#include "cluster/slurm.h"

#include <ddprun/error.h>

#include <regex>
#include <string>

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

std::optional<double> slurm_time_left(const Environment& environment) try {
  const auto job = find_slurm_job(environment);
  if (!job || !has_program("squeue")) return std::nullopt;
  const auto shown = run_program({"squeue", "--noheader", "--jobs=" + job->name, "--format=%L"}, {.seconds = 30});
  return shown.exit_code == 0 ? parse_time_left(shown.output) : std::nullopt;
} catch (const std::exception& error) {
  log::warn(std::string("cannot ask Slurm how long the job may run: ") + error.what());
  return std::nullopt;
}

std::optional<double> parse_time_left(std::string_view text) {
  static const std::regex kForm(R"(\s*(?:(?:(\d{1,5})-)?(\d{1,3}):)?(\d{1,2}):(\d{2})\s*)");
  std::match_results<std::string_view::const_iterator> parts;
  if (!std::regex_match(text.begin(), text.end(), parts, kForm)) return std::nullopt;
  const auto number = [&parts](int part) { return parts[part].matched ? std::stod(parts[part].str()) : 0.0; };
  return ((number(1) * 24 + number(2)) * 60 + number(3)) * 60 + number(4);
}

}  // namespace ddprun
