// SPDX-License-Identifier: MIT
// `ddprun EXPERIMENT`, `ddprun find-lr EXPERIMENT` and `ddprun resume RUN`: choose the run and what it starts from.
#include "agent/agent.h"
#include "agent/checked_experiment.h"
#include "agent/chosen_checkpoint.h"
#include "agent/early_signals.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/multirun.h"
#include "config/config_files.h"
#include "config/experiment_reader.h"
#include "config/resumed_keys.h"
#include "launch/run_folder.h"

#include <ddprun/error.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// Where a new run's folder is made, if the experiment does not name one: <outputs>/<name>.
struct RunsFolder {
  std::string name;
  fs::path outputs = "outputs";
};

// Keeps range tests apart, since outputs/NAME/latest is the newest run that trained.
RunsFolder runs_of(const Experiment& experiment) {
  if (experiment.is_range_test()) return {.name = "find_lr", .outputs = fs::path("outputs") / experiment.name};
  return {.name = experiment.name};
}

// Throws UserError if the experiment differs from what the run has recorded in a key that it would ignore: one that is
// fixed by one of `by`, or by the run's checkpoints.
void refuse_ignored(const fs::path& run, const Experiment& now, std::vector<FixedKey::By> by) {
  const auto file = run / "config.yaml";
  std::error_code error;
  if (!fs::exists(file, error)) return;
  if (!checkpoint_steps(run).empty()) by.push_back(FixedKey::By::kCheckpoint);
  Problems of_another_version;
  auto recorded = read_experiment(load_yaml(file), of_another_version);
  if (now.checkpoint.resume == Resume::kAuto) recorded.checkpoint.resume = Resume::kAuto;
  if (fs::equivalent(now.run_dir, run, error)) recorded.run_dir = now.run_dir;
  const auto ignored = ignored_changes(recorded, now, by);
  if (!ignored.empty()) throw_problems(ignored);
}

// Does the same for a new run that starts from another's checkpoint. One that lies alone has no record, but weights.
void refuse_ignored_start(const fs::path& checkpoint, const Experiment& now) {
  const auto run = checkpoint.parent_path().parent_path();
  if (fs::exists(run / "config.yaml") && checkpoint.parent_path() == checkpoints_folder(run))
    return refuse_ignored(run, now, {});
  auto recorded = now;
  recorded.pretrained = {};
  const auto ignored = ignored_changes(recorded, now, {FixedKey::By::kCheckpoint});
  if (!ignored.empty()) throw_problems(ignored);
}

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
  const auto runs = runs_of(experiment);
  if (placement.restart_count > 0) {
    const auto job = job_of(placement);
    if (const auto run = find_run_of_job(runs.name, run_dir, job, runs.outputs)) return run;
    log::info(log::text(word_of(placement.engine),
                        " restarted this job, but none of its runs was found; starting a new one",
                        placement.job_id.empty() ? "; torchrun --rdzv-id=NAME would identify it" : ""));
  }
  if (experiment.checkpoint.resume != Resume::kAuto) return std::nullopt;
  if (!run_dir.empty()) return fs::exists(run_dir) ? std::optional(run_dir) : std::nullopt;
  return find_run_to_resume(runs.name, runs.outputs);
}

PreparedRun start_or_go_on(const CheckedExperiment& checked, const Placement& placement) {
  const auto& experiment = checked.experiment;
  if (const auto run = unfinished_run(experiment, placement)) {
    refuse_ignored(*run, experiment, {FixedKey::By::kFolder});
    log::info("resuming " + run->string());
    // Passes the experiment as it is now: the frozen one already has these overrides, and ~key or +key does not work
    // twice.
    return go_on(RunFolder::resume(*run), checked);
  }
  // Whatever can fail comes before the folder is created: a run that cannot start leaves none behind.
  const auto& asked = experiment.checkpoint;
  auto checkpoint = asked.resume == Resume::kFrom ? named_checkpoint(asked.resume_from) : fs::path();
  if (!checkpoint.empty()) refuse_ignored_start(checkpoint, experiment);
  prepare_data(checked);
  const auto runs = runs_of(experiment);
  auto folder = RunFolder::create(runs.name, experiment.run_dir, runs.outputs);
  if (const auto job = job_of(placement); !job.empty()) folder.belongs_to(job);
  return {.folder = std::move(folder), .checkpoint = std::move(checkpoint)};
}

int train(const Arguments& arguments, const std::vector<std::string>& overrides) {
  const double started_at = steady_seconds();
  std::optional<EarlySignals> early(std::in_place);
  auto checked =
      check_experiment({.experiment = arguments.target, .overrides = overrides, .search_path = config_search_path()});
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

void require_range(const Arguments& arguments, const Experiment& experiment) {
  constexpr int64_t kFewest = 10;
  if (!(arguments.from > 0) || !(arguments.to > arguments.from))
    throw UserError(log::text("--from ", arguments.from, " --to ", arguments.to,
                              ": expected two learning rates above 0, the smaller one first"));
  if (arguments.steps < kFewest)
    throw UserError(log::text("--steps ", arguments.steps, ": expected at least ", kFewest));
  if (experiment.checkpoint.resume == Resume::kFrom)
    throw UserError("checkpoint.resume=" + experiment.checkpoint.resume_from +
                    ": a range test begins at step 0; to start from these weights, set pretrained.file");
}

constexpr auto kReplaced = std::to_array<std::string_view>(
    {"schedule", "checkpoint", "early_stopping", "histograms", "predictions", "profile", "callbacks", "loggers"});

// What a range test sets besides, and what it has no use for: its steps are the command's, and it evaluates nothing.
constexpr auto kSet = std::to_array<std::string_view>(
    {"trainer.max_time=none", "trainer.fast_dev_run=false", "trainer.log_every=1", "trainer.eval_every=never",
     "trainer.sanity_batches=0", "trainer.ema_decay=0", "trainer.on_nonfinite=stop"});
constexpr auto kUnused =
    std::to_array<std::string_view>({"trainer.max_steps", "trainer.max_epochs", "trainer.eval_batch",
                                     "trainer.limit_val_batches", "trainer.limit_test_batches"});

// Returns whether the override changes a section that a range test replaces, or a key in it; it warns of one that has
// no effect then. How the lr is scaled is taken over.
bool is_replaced(std::string_view override) {
  const auto key = override.substr(std::min(override.find_first_not_of("+~"), override.size()));
  const auto section = key.substr(0, key.find_first_of(".[="));
  const auto name = key.substr(0, key.find('='));
  const auto is_set = [&](std::string_view set) { return set.substr(0, set.find('=')) == name; };
  if (std::ranges::any_of(kSet, is_set) || std::ranges::find(kUnused, name) != kUnused.end())
    log::warn(log::text(override, ": has no effect: a range test has its own steps, and evaluates nothing"));
  if (std::ranges::find(kReplaced, section) == kReplaced.end()) return false;
  const bool is_kept = key.starts_with("schedule.lr_scaling=") || key.starts_with("schedule.reference_batch=");
  if (!is_kept && !override.starts_with('~'))
    log::warn(log::text(override, ": has no effect: a range test has its own ", section));
  return true;
}

// Returns the overrides that make a range test of the experiment. It keeps all that the loss of a step depends on:
// model, data, batches, optimizer, precision, and how optimizer.lr is scaled with the batch.
std::vector<std::string> range_test(const Arguments& arguments, const Experiment& experiment) {
  const auto& schedule = experiment.schedule;
  auto overrides = arguments.overrides;
  std::erase_if(overrides, is_replaced);
  for (const auto section : kReplaced) overrides.push_back(log::text("++", section, "=null"));
  std::string loggers;
  for (const std::string name : kDefaultLoggers) loggers += (loggers.empty() ? "" : ", ") + name;
  for (const auto& setting :
       {std::string("++callbacks=[]"), "++loggers=[" + loggers + "]", std::string("checkpoint.every=never")})
    overrides.push_back(setting);
  overrides.insert(overrides.end(), kSet.begin(), kSet.end());
  for (const auto* limit : {"trainer.max_steps=", "trainer.max_epochs="})
    overrides.push_back(log::text(limit, arguments.steps));
  overrides.push_back(log::text("++schedule={name: range_test, from: ", arguments.from, ", to: ", arguments.to,
                                ", lr_scaling: ", word_of(schedule.lr_scaling),
                                ", reference_batch: ", schedule.reference_batch, "}"));
  return overrides;
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
  refuse_ignored(run, checked.experiment, {FixedKey::By::kFolder, FixedKey::By::kSubmit});
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
  return train(arguments, arguments.overrides);
}

int find_lr(const Arguments& arguments) {
  const auto experiment = load_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()});
  require_range(arguments, experiment);
  return train(arguments, range_test(arguments, experiment));
}

}  // namespace ddprun
