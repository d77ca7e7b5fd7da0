// SPDX-License-Identifier: MIT
// `ddprun EXPERIMENT` and `ddprun resume RUN`: from a checked experiment to running workers.
#include "checkpoint/checkpoint.h"
#include "cli/checked_experiment.h"
#include "cli/commands.h"
#include "cli/launch_choice.h"
#include "cli/prepare_display.h"
#include "launch/launcher.h"
#include "launch/run_folder.h"
#include "log/log.h"
#include "train/run_clock.h"
#include "train/summary.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <torch/headeronly/version.h>

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/runtime_symbol_info.hpp>

#include <cstdlib>
#include <optional>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// One attempt at a run: everything the workers are started from.
struct Attempt {
  RunFolder folder;
  CheckedExperiment checked;
  LaunchChoice launch;
  fs::path checkpoint;  // to go on from; empty: from the start
  double started_at = 0;
};

// The newest good checkpoint of a run, with a word about every broken one.
fs::path checkpoint_to_resume(const fs::path& run) {
  std::vector<CheckpointFlaw> flaws;
  const auto newest = newest_checkpoint(run, flaws);
  for (const auto& flaw : flaws)
    log::warn("passed over a broken checkpoint: " + flaw.path.string() + ": " + flaw.problem);
  return newest ? newest->path : fs::path();
}

std::vector<std::pair<std::string, std::string>> worker_environment(const LaunchChoice& launch,
                                                                    const fs::path& checkpoint) {
  auto variables = launch_variables(launch);
  variables.emplace_back("DDPRUN_RESUME", checkpoint.string());
  return variables;
}

int run_attempt(Attempt& attempt, const Arguments& arguments) {
  const auto& experiment = attempt.checked.experiment;
  const auto& launch = attempt.launch;
  const int number = attempt.folder.begin_attempt();
  attempt.folder.record({.config_yaml = to_yaml(experiment.config, /*origins=*/true),
                         .overrides = arguments.overrides,
                         .arguments = arguments.words,
                         .versions = {{"ddprun", DDPRUN_VERSION}, {"libtorch", TORCH_VERSION}},
                         .plugin_files = attempt.checked.plugin_files});
  const auto result = launch_workers({.command = {boost::dll::program_location().string(), "worker"},
                                      .environment = worker_environment(launch, attempt.checkpoint),
                                      .run_dir = attempt.folder.path(),
                                      .workers = static_cast<int>(launch.workers),
                                      .attempt = number,
                                      .started_at = attempt.started_at});
  if (result.report.empty()) return result.exit_code;
  log::error(result.report.substr(0, result.report.find_last_not_of('\n') + 1));
  write_summary(attempt.folder.path(), {.end = {.status = "failed",
                                                .stop_reason = result.report.substr(0, result.report.find('\n')),
                                                .total_seconds = wall_seconds() - attempt.started_at,
                                                .world_size = launch.workers},
                                        .attempt = number});
  if (!checkpoint_to_resume(attempt.folder.path()).empty()) {
    log::info("go on from the last checkpoint with: ddprun resume " + attempt.folder.path().string());
  }
  return result.exit_code;
}

LaunchChoice launch_of(const Experiment& experiment) {
  return choose_launch(experiment.launch, experiment.trainer, this_machine());
}

CheckedExperiment frozen(const fs::path& run, const std::vector<std::string>& overrides) {
  return check_experiment(
      {.experiment = run / "config.yaml", .overrides = overrides, .search_path = config_search_path(), .frozen = true});
}

int go_on(RunFolder folder, CheckedExperiment checked, const Arguments& arguments, double started_at) {
  Attempt attempt{.folder = std::move(folder), .checked = std::move(checked), .started_at = started_at};
  attempt.launch = launch_of(attempt.checked.experiment);
  attempt.checkpoint = checkpoint_to_resume(attempt.folder.path());
  attempt.checked.dataset->prepare(prepare_display());
  if (attempt.checkpoint.empty())
    log::info("no checkpoint yet in " + attempt.folder.path().string() + ": starting it from the beginning");
  return run_attempt(attempt, arguments);
}

// What checkpoint.resume=auto finds: the run in run.dir where that exists, else the newest unfinished one of the name.
std::optional<fs::path> unfinished_run(const Experiment& experiment) {
  if (!experiment.run_dir.empty()) {
    return fs::exists(experiment.run_dir) ? std::optional(experiment.run_dir) : std::nullopt;
  }
  return find_run_to_resume(experiment.name);
}

}  // namespace

int resume(const Arguments& arguments) {
  const double started_at = wall_seconds();
  auto folder = RunFolder::resume(arguments.target);
  auto checked = frozen(folder.path(), arguments.overrides);
  return go_on(std::move(folder), std::move(checked), arguments, started_at);
}

int train(const Arguments& arguments) {
  const double started_at = wall_seconds();
  auto checked = check_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()});
  const auto& experiment = checked.experiment;
  const auto& from = experiment.checkpoint.resume;
  if (from == "auto") {
    if (const auto run = unfinished_run(experiment)) {
      log::info("going on with " + run->string());
      // With the experiment as it is now: the frozen one has these overrides in it, and ~key or +key does not work twice.
      return go_on(RunFolder::resume(*run), std::move(checked), arguments, started_at);
    }
  }
  fs::path checkpoint;
  if (from != "auto" && from != "never") {
    checkpoint =
        fs::exists(fs::path(from) / "manifest.json") ? verify_checkpoint(from).path : checkpoint_to_resume(from);
    if (checkpoint.empty())
      throw UserError("checkpoint.resume: " + from + " is no checkpoint, and no run with a good one");
  }
  // What can fail comes before there is a folder: a run that cannot start leaves none behind.
  const auto launch = launch_of(experiment);
  checked.dataset->prepare(prepare_display());
  Attempt attempt{.folder = RunFolder::create(experiment.name, experiment.run_dir),
                  .checked = std::move(checked),
                  .launch = launch,
                  .checkpoint = checkpoint.empty() ? checkpoint : fs::absolute(checkpoint),
                  .started_at = started_at};
  return run_attempt(attempt, arguments);
}

}  // namespace ddprun
