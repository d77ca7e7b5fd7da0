// SPDX-License-Identifier: MIT
// `ddprun EXPERIMENT` and `ddprun resume RUN`: choose the run and what it starts from.
#include "agent/agent.h"
#include "agent/checked_experiment.h"
#include "agent/chosen_checkpoint.h"
#include "agent/early_signals.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/multirun.h"
#include "config/config_files.h"
#include "launch/run_folder.h"

#include <ddprun/error.h>

#include <unistd.h>

#include <optional>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

PreparedRun go_on(RunFolder folder, const CheckedExperiment& checked) {
  prepare_data(checked);
  return {.folder = std::move(folder), .checkpoint = {}};
}

// Returns the engine's name for the job of this process, which lasts over restarts and requeues; empty if there is
// none. A torchrun without a name is identified by its process, the parent of this one.
std::string job_of(const Placement& placement) {
  if (!placement.job_id.empty()) return log::text(word_of(placement.engine), ":", placement.job_id);
  if (!placement.engine_restarts) return "";
  return log::text(word_of(placement.engine), ":", placement.host, ":", placement.port, ":", ::getppid());
}

// Returns the run to resume: that of the same job if its engine has restarted it; with checkpoint.resume=auto, the run
// in run.dir if that exists, else the newest unfinished run of the name.
std::optional<fs::path> unfinished_run(const Experiment& experiment, const Placement& placement) {
  const auto& run_dir = experiment.run_dir;
  if (placement.restart_count > 0) {
    const auto job = job_of(placement);
    if (const auto run = find_run_of_job(experiment.name, run_dir, job)) return run;
    log::info(log::text(word_of(placement.engine),
                        " restarted this job, but none of its runs was found; starting a new one",
                        placement.job_id.empty() ? "; torchrun --rdzv-id=NAME would identify it" : ""));
  }
  if (experiment.checkpoint.resume != Resume::kAuto) return std::nullopt;
  if (!run_dir.empty()) return fs::exists(run_dir) ? std::optional(run_dir) : std::nullopt;
  return find_run_to_resume(experiment.name);
}

PreparedRun start_or_go_on(const CheckedExperiment& checked, const Placement& placement) {
  const auto& experiment = checked.experiment;
  if (const auto run = unfinished_run(experiment, placement)) {
    log::info("resuming " + run->string());
    // Passes the experiment as it is now: the frozen one already has these overrides, and ~key or +key does not work
    // twice.
    return go_on(RunFolder::resume(*run), checked);
  }
  // Whatever can fail comes before the folder is created: a run that cannot start leaves none behind.
  const auto& asked = experiment.checkpoint;
  auto checkpoint = asked.resume == Resume::kFrom ? named_checkpoint(asked.resume_from) : fs::path();
  prepare_data(checked);
  auto folder = RunFolder::create(experiment.name, experiment.run_dir);
  if (const auto job = job_of(placement); !job.empty()) folder.belongs_to(job);
  return {.folder = std::move(folder), .checkpoint = std::move(checkpoint)};
}

}  // namespace

int resume(const Arguments& arguments) {
  const double started_at = steady_seconds();
  std::optional<EarlySignals> early(std::in_place);
  const auto run = existing_part(arguments.target);
  auto checked = check_experiment({.experiment = run / "config.yaml",
                                   .overrides = arguments.overrides,
                                   .search_path = config_search_path(),
                                   .frozen = true});
  const auto setup = find_node_setup(arguments.launch, checked.experiment);
  return run_agent(setup, {.words = arguments.words,
                           .overrides = arguments.overrides,
                           .checked = checked,
                           .started_at = started_at,
                           .run_dir = run,
                           .make = [&] {
                             auto ready = go_on(RunFolder::resume(run), checked);
                             early.reset();
                             return ready;
                           }});
}

int run(const Arguments& arguments) {
  if (arguments.show_config) return show_config(arguments);
  if (arguments.multirun) return multirun(arguments);
  const double started_at = steady_seconds();
  std::optional<EarlySignals> early(std::in_place);
  auto checked = check_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()});
  const auto setup = find_node_setup(arguments.launch, checked.experiment);
  return run_agent(setup, {.words = arguments.words,
                           .overrides = arguments.overrides,
                           .carries_plugins = !arguments.build.empty(),
                           .checked = checked,
                           .started_at = started_at,
                           .run_dir = checked.experiment.run_dir,
                           .make = [&] {
                             auto ready = start_or_go_on(checked, setup.placement);
                             early.reset();
                             return ready;
                           }});
}

}  // namespace ddprun
