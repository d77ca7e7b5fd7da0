// SPDX-License-Identifier: MIT
// `ddprun EXPERIMENT` and `ddprun resume RUN`: which run it is, and what it begins with.
#include "agent/agent.h"
#include "agent/checked_experiment.h"
#include "agent/chosen_checkpoint.h"
#include "agent/early_signals.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/multirun.h"
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

// What an engine calls the job that this process belongs to, over restarts and requeues; empty where there is none. A
// torchrun that was given no name is told by its process, the parent of this one.
std::string job_of(const Placement& placement) {
  if (!placement.job_id.empty()) return placement.engine + ":" + placement.job_id;
  if (!placement.engine_restarts) return "";
  return log::text(placement.engine, ":", placement.host, ":", placement.port, ":", ::getppid());
}

// The run to go on with: that of the same job where its engine has started it again; with checkpoint.resume=auto the
// run in run.dir where that exists, else the newest unfinished one of the name.
std::optional<fs::path> unfinished_run(const Experiment& experiment, const Placement& placement) {
  const auto& run_dir = experiment.run_dir;
  if (placement.restart_count > 0) {
    const auto job = job_of(placement);
    if (const auto run = find_run_of_job(experiment.name, run_dir, job)) return run;
    log::info(log::text(placement.engine, " has started this job again, but no run of it is found: beginning a new one",
                        placement.job_id.empty() ? "; torchrun --rdzv-id=NAME would tell which it is" : ""));
  }
  if (experiment.checkpoint.resume != "auto") return std::nullopt;
  if (!run_dir.empty()) return fs::exists(run_dir) ? std::optional(run_dir) : std::nullopt;
  return find_run_to_resume(experiment.name);
}

PreparedRun start_or_go_on(const CheckedExperiment& checked, const Placement& placement) {
  const auto& experiment = checked.experiment;
  if (const auto run = unfinished_run(experiment, placement)) {
    log::info("going on with " + run->string());
    // With the experiment as it is now: the frozen one has these overrides in it, and ~key or +key does not work twice.
    return go_on(RunFolder::resume(*run), checked);
  }
  // What can fail comes before there is a folder: a run that cannot start leaves none behind.
  const auto& from = experiment.checkpoint.resume;
  auto checkpoint = from == "auto" || from == "never" ? fs::path() : named_checkpoint(from);
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
