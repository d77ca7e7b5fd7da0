// SPDX-License-Identifier: MIT
#include "features/record/steps_again.h"

#include "agent/checked_experiment.h"
#include "base/log.h"
#include "base/program.h"
#include "base/spawn.h"
#include "features/record/run_facts.h"
#include "launch/run_folder.h"
#include "launch/worker_process.h"
#include "runs/run_state.h"

#include <ddprun/error.h>

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t asked_to_end = 0;

// Notes signals that would end this process, so that the training can save and end.
void listen_for_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) std::signal(signal, [](int) { asked_to_end = 1; });
}

// Ends the program once it has made the steps, or we are asked to end, if it does not end before. Calls `recorded` once
// the records are there, unless that is null. Returns its exit code.
int end_after(pid_t child, const fs::path& run, const StepsToMake& steps, std::function<void()> recorded) {
  constexpr int kBetweenLooksMs = 20;
  for (bool asked = false;;) {
    if (const auto code = wait_until(child, std::chrono::steady_clock::now())) return *code;
    const auto digests = asked ? std::map<int64_t, RecordedDigest>() : read_digests(run);
    const auto made = digests.empty() ? 0 : digests.rbegin()->first;
    if (!asked && (made >= steps.last || asked_to_end != 0)) asked = ::kill(child, SIGTERM) == 0;
    if (recorded && made >= steps.record.steps.last) std::exchange(recorded, nullptr)();
    ::poll(nullptr, 0, kBetweenLooksMs);
  }
}

std::string list_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

// Returns the first digest from a step on, which the attempt that made the step has noted; the last one if there is
// none there, or null without any.
const RecordedDigest* digest_after(const ReplayedRun& run, int64_t step) {
  const auto found = run.digests.lower_bound(step);
  if (found != run.digests.end()) return &found->second;
  return run.digests.empty() ? nullptr : &run.digests.rbegin()->second;
}

// Returns the file of this name that `is_of` the attempt that made a step, the newest or one that was kept of an
// attempt before; the newest if none is.
fs::path file_of_maker(const ReplayedRun& run, int64_t step, const fs::path& name,
                       const std::function<bool(const fs::path& file, const Makers& makers)>& is_of) {
  auto newest = run.path / name;
  const auto* digest = digest_after(run, step);
  if (!digest || is_of(newest, digest->makers)) return newest;
  for (const auto& entry : fs::directory_iterator(run.path)) {
    const bool is_kept = entry.path().filename().string().starts_with(name.stem().string() + ".attempt_");
    if (is_kept && is_of(entry.path(), digest->makers)) return entry.path();
  }
  return newest;
}

// A run that is resumed with other keys keeps those before.
fs::path config_of(const ReplayedRun& run, int64_t step) {
  return file_of_maker(run, step, "config.yaml", [](const fs::path& file, const Makers& makers) {
    return experiment_digest(file) == makers.experiment;
  });
}

std::vector<std::string> command_for(const ReplayedRun& run, const StepsToMake& steps, const fs::path& folder) {
  std::vector<std::string> words{own_program().string()};
  words.push_back(config_of(run, steps.last).string());
  words.push_back(log::text("launch.workers=", steps.workers));
  words.emplace_back("++launch.nodes=1");
  words.emplace_back("++loggers=[jsonl]");
  words.push_back("++run.dir=" + folder.string());
  words.push_back("++checkpoint.resume=" + (steps.checkpoint ? steps.checkpoint->path.string() : "never"));
  if (steps.every_digest) words.push_back("trainer.log_every=1");
  const auto& record = steps.record;
  if (record.steps.last == 0) return words;
  words.push_back(log::text("++record.steps=", record.steps.first, "..", record.steps.last));
  if (!record.without.empty()) words.push_back("++record.without=" + list_text(record.without));
  if (record.kept.number >= 0)
    words.push_back("++record.operator=" + list_text({record.kept.rank, record.kept.part, record.kept.number}));
  return words;
}

// Returns on how many workers the steps were made.
int64_t workers_of(const ReplayedRun& run, const StepsToMake& steps) {
  const auto* digest = digest_after(run, steps.last);
  const auto recorded = digest ? digest->makers.workers : 0;
  const auto made = recorded > 0 ? recorded : std::max<int64_t>(1, read_run_state(run.path).workers);
  if (run.experiment.trainer.shards > 0) return made;
  for (auto one = run.digests.lower_bound(steps.first()); one != run.digests.end() && one->first < steps.last; ++one) {
    const auto then = one->second.makers.workers;
    if (then > 0 && then != made)
      throw UserError(log::text("the steps from ", steps.from(), " to ", steps.last,
                                " cannot be made again: the run had ", then, " workers up to step ", one->first, ", ",
                                made, " at the end, and without trainer.shards the bits depend on their number"));
  }
  return made;
}

}  // namespace

ReplayedRun replayed_run(const fs::path& folder) {
  ReplayedRun run{.path = existing_run(folder)};
  run.experiment = check_experiment({.experiment = run.path / "config.yaml", .frozen = true}).experiment;
  run.digests = read_digests(run.path);
  if (!run.experiment.features.of<RecordConfig>().without.empty())
    throw UserError(run.path.string() +
                    " has made a step without samples (record.without); replay the run that has all");
  return run;
}

void require_made(const ReplayedRun& run, int64_t step) {
  const auto status = read_run_state(run.path).status;
  const bool is_whole = status == RunStatus::kCompleted || status == RunStatus::kStoppedEarly;
  const auto last_digest = run.digests.empty() ? 0 : run.digests.rbegin()->first;
  const auto last = is_whole ? last_digest : last_digest + run.experiment.trainer.log_every - 1;
  if (step >= 1 && step <= last) return;
  throw UserError(log::text("--step ", step, ": expected 1 to ", last, ", the last step that ", run.path.string(),
                            is_whole ? " has made" : " can have made, by its last row of metrics"));
}

fs::path environment_of(const ReplayedRun& run, int64_t step) {
  return file_of_maker(run, step, "environment.json",
                       [](const fs::path& file, const Makers& makers) { return attempt_in(file) == makers.attempt; });
}

StepsToMake steps_to_make(const ReplayedRun& run, int64_t step, int64_t last, int64_t workers) {
  StepsToMake steps{.last = last};
  std::vector<CheckpointFlaw> flaws;
  steps.checkpoint = newest_checkpoint(run.path, flaws, step - 1);
  for (const auto& flaw : flaws) log::warn("skipped a broken checkpoint: " + flaw.path.string() + ": " + flaw.problem);
  steps.workers_then = workers_of(run, steps);
  steps.workers = workers > 0 ? workers : steps.workers_then;
  if (steps.workers != steps.workers_then && run.experiment.trainer.shards == 0)
    throw UserError(log::text("--workers ", workers, ": the run had ", steps.workers_then,
                              ", and without trainer.shards the bits depend on their number; omit --workers"));
  return steps;
}

StepsMade make_again(const ReplayedRun& run, const StepsToMake& steps, const fs::path& folder, const Show& show) {
  const auto again = folder / "run", log_file = folder / "log";
  fs::create_directories(folder);
  const UniqueFd output(::open(log_file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  listen_for_signals();
  const auto child = spawn({.command = command_for(run, steps, again),
                            .environment = with_library_variables(own_environment(), environment_of(run, steps.last)),
                            .stdout_fd = output.get(),
                            .stderr_fd = output.get()});
  const int code = end_after(child, again, steps, show ? [&] { show(read_records(again)); } : std::function<void()>());
  StepsMade made{.digests = read_digests(again), .stopped = asked_to_end != 0};
  if (steps.record.steps.last > 0) made.records = read_records(again);
  if (code == kExitDone || code == kExitPreempted) return made;
  std::ifstream stream(log_file);
  made.failure = log::text("training ended with ", code, ":\n", std::string(std::istreambuf_iterator(stream), {}));
  return made;
}

DigestComparison compare_digests(const std::map<int64_t, RecordedDigest>& first,
                                 const std::map<int64_t, RecordedDigest>& second) {
  DigestComparison found;
  for (const auto& [step, digest] : first) {
    const auto other = second.find(step);
    if (other == second.end()) continue;
    ++found.compared;
    found.last = step;
    if (found.other == 0) (other->second.digest == digest.digest ? found.same : found.other) = step;
  }
  return found;
}

std::string cannot_be_made(const ReplayedRun& run, const StepsMade& made, int64_t step) {
  return log::text("the steps of ", run.path.string(), " cannot be made again: ",
                   made.failure.empty() ? log::text("training ended before step ", step) : made.failure);
}

}  // namespace ddprun
