// SPDX-License-Identifier: MIT
#include "agent/run_source.h"

#include "agent/chosen_checkpoint.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "config/experiment_reader.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

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

// Refuses an experiment that differs from what the run has recorded in a key that it would ignore: one that is fixed by
// one of `by`, or by the run's checkpoints.
void refuse_ignored(const fs::path& run, const Experiment& now, std::set<FixedKey::By> by) {
  const auto file = run / "config.yaml";
  std::error_code error;
  if (!fs::exists(file, error)) return;
  const auto ignored = ignored_by_run(run, load_yaml(file), now, fixed_in(run, std::move(by)));
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

// Returns the engine's name for this run of its job, which lasts over restarts and requeues; empty if there is none. A
// torchrun without a name is identified by its process, the parent of this one.
std::string job_of(const Placement& placement) {
  const auto engine = word_of(placement.engine);
  const auto run = placement.earlier_runs > 0 ? log::text(":run ", placement.earlier_runs + 1) : "";
  if (!placement.job_id.empty()) return log::text(engine, ":", placement.job_id, run);
  if (!placement.engine_restarts) return "";
  return log::text(engine, ":", placement.host, ":", placement.port, ":", ::getppid(), run);
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

// Whatever can fail comes before the folder is created: a run that cannot start leaves none behind.
PreparedRun create_run(const CheckedExperiment& checked, const Placement& placement) {
  const auto& experiment = checked.experiment;
  const auto& asked = experiment.checkpoint;
  auto checkpoint = asked.resume == Resume::kFrom ? named_checkpoint(asked.resume_from) : fs::path();
  if (!checkpoint.empty()) refuse_ignored_start(checkpoint, experiment);
  prepare_data(checked);
  const auto runs = runs_of(experiment);
  auto folder = RunFolder::create(runs.name, experiment.run_dir, runs.outputs);
  if (const auto job = job_of(placement); !job.empty()) folder.belongs_to(job);
  return {.folder = std::move(folder), .checkpoint = std::move(checkpoint)};
}

}  // namespace

void inform_caller(const fs::path& run_dir) {
  if (const char* file = std::getenv(kRunFile)) replace_file(file, fs::absolute(run_dir).string() + "\n");
}

PreparedRun open_run(const fs::path& resumed, const CheckedExperiment& checked, const Placement& placement) {
  auto run = resumed;
  if (resumed.empty()) {
    const auto unfinished = unfinished_run(checked.experiment, placement);
    if (!unfinished) return create_run(checked, placement);
    refuse_ignored(*unfinished, checked.experiment, {FixedKey::By::kFolder});
    log::info("resuming " + unfinished->string());
    run = *unfinished;  // with the experiment as it is now: the frozen one already has these overrides
  }
  auto folder = RunFolder::resume(run);
  prepare_data(checked);
  return {.folder = std::move(folder), .checkpoint = {}};
}

}  // namespace ddprun
