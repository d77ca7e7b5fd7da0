// SPDX-License-Identifier: MIT
// `ddprun replay RUN --step N`: makes the steps up to N again, from the newest checkpoint before it, as a run in a
// temporary folder, and compares the digests of both.
#include "agent/checked_experiment.h"
#include "agent/chosen_checkpoint.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/program.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "launch/worker_process.h"
#include "report/run_state.h"
#include "train/digest_log.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iostream>
#include <iterator>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Digests = std::map<int64_t, uint64_t>;

// What is made again.
struct Replay {
  fs::path run;
  Experiment experiment;
  Digests recorded;
  int64_t target = 0;                        // step of the first digest from --step on
  std::optional<CheckpointInfo> checkpoint;  // to begin with; none: the run's beginning
  int64_t workers = 0, workers_then = 0;

  int64_t first() const { return checkpoint ? checkpoint->step : 0; }
  std::string from() const { return checkpoint ? checkpoint->path.filename().string() : "the beginning"; }
};

int64_t target_of(const Replay& replay, int64_t step) {
  if (replay.recorded.empty())
    throw UserError(replay.run.string() + " has no digests.jsonl: it has not come to its first row of metrics yet");
  const auto found = replay.recorded.lower_bound(step);
  if (step >= 1 && found != replay.recorded.end()) return found->first;
  throw UserError(log::text("--step ", step, ": expected 1 to ", replay.recorded.rbegin()->first, ", the last step of ",
                            replay.run.string(), " that has a digest"));
}

Replay plan(const Arguments& arguments) {
  Replay replay{.run = existing_run(arguments.target)};
  replay.experiment = check_experiment({.experiment = replay.run / "config.yaml", .frozen = true}).experiment;
  replay.recorded = read_digests(replay.run);
  replay.target = target_of(replay, arguments.step);
  std::vector<CheckpointFlaw> flaws;
  replay.checkpoint = newest_checkpoint(replay.run, flaws, arguments.step - 1);
  for (const auto& flaw : flaws) log::warn("skipped a broken checkpoint: " + flaw.path.string() + ": " + flaw.problem);
  replay.workers_then = std::max<int64_t>(1, read_run_state(replay.run).workers);
  replay.workers = arguments.workers > 0 ? arguments.workers : replay.workers_then;
  if (replay.workers != replay.workers_then && replay.experiment.trainer.shards == 0)
    throw UserError(log::text("--workers ", replay.workers, ": the run had ", replay.workers_then,
                              ", and without trainer.shards the bits depend on their number; omit --workers"));
  return replay;
}

volatile std::sig_atomic_t asked_to_end = 0;

// Notes signals that would end this process and leave the training behind.
void listen_for_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) std::signal(signal, [](int) { asked_to_end = 1; });
}

// Ends the program once it has made the steps, or we are asked to end, if it does not end before. Returns its exit
// code.
int end_after(pid_t child, const fs::path& run, int64_t target) {
  constexpr int kBetweenLooksMs = 50;
  for (bool told = false;;) {
    if (const auto status = wait_until(child, std::chrono::steady_clock::now()))
      return WIFEXITED(*status) ? WEXITSTATUS(*status) : kExitSignalBase + WTERMSIG(*status);
    const auto made = told ? Digests() : read_digests(run);
    const bool is_done = !made.empty() && made.rbegin()->first >= target;
    if (!told && (is_done || asked_to_end != 0)) told = ::kill(child, SIGTERM) == 0;
    ::poll(nullptr, 0, kBetweenLooksMs);
  }
}

void train_again(const Replay& replay, const fs::path& folder) {
  std::vector<std::string> command{
      own_program().string(),
      (replay.run / "config.yaml").string(),
      log::text("launch.workers=", replay.workers),
      "++launch.nodes=1",
      "++loggers=[jsonl]",
      "++run.dir=" + (folder / "run").string(),
      "++checkpoint.resume=" + (replay.checkpoint ? replay.checkpoint->path.string() : "never")};
  const auto log_file = folder / "log";
  const UniqueFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd output(::open(log_file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  listen_for_signals();
  const auto child = start_program(command, {input.get(), output.get(), output.get()}, ProgramGroup::kOurs);
  const int code = end_after(child, folder / "run", replay.target);
  if (code == kExitDone || code == kExitPreempted) return;
  std::ifstream stream(log_file);
  throw UserError(log::text("the steps cannot be made again: training ended with ", code, ":\n",
                            std::string(std::istreambuf_iterator(stream), {})));
}

// Returns the plugins' files by what they contain.
std::map<std::string, std::string> plugins_of(const fs::path& run) {
  std::map<std::string, std::string> plugins;
  const auto environment = read_json_file(run / "environment.json");
  if (!environment.is_object()) return plugins;
  for (const auto& plugin : environment.value("plugins", nlohmann::json::array())) {
    if (plugin.is_object())
      plugins[fs::path(plugin.value("file", "")).filename().string()] = plugin.value("sha256", "");
  }
  return plugins;
}

// Returns what is not as it was in the run, for the reader of a difference: "; convnet.so is another build".
std::string changes(const Replay& replay, const fs::path& again) {
  std::string text;
  const auto then = plugins_of(replay.run);
  for (const auto& [file, digest] : plugins_of(again)) {
    const auto before = then.find(file);
    if (before != then.end() && before->second != digest) text += "; " + file + " is another build than the run's";
  }
  if (read_json_file(replay.run / "data.json") != read_json_file(again / "data.json"))
    text += "; the data are others (data.json)";
  return text;
}

}  // namespace

int replay(const Arguments& arguments) {
  const auto replay = plan(arguments);
  const PrivateFolder folder;
  train_again(replay, folder.path());
  if (asked_to_end != 0) return kExitPreempted;
  const auto again = read_digests(folder.path() / "run");
  int64_t compared = 0, differs = 0;
  for (const auto& [step, digest] : again) {
    const auto then = replay.recorded.find(step);
    if (then == replay.recorded.end() || step > replay.target) continue;
    ++compared;
    if (then->second != digest && differs == 0) differs = step;
  }
  const auto head = log::text("replay: steps ", replay.first() + 1, " to ", replay.target, " from ", replay.from(),
                              ", ", replay.workers, replay.workers == 1 ? " worker" : " workers", " (the run had ",
                              replay.workers_then, "): ");
  const auto others = changes(replay, folder.path() / "run");
  if (compared == 0)
    throw UserError(log::text("the steps cannot be made again: training ended before step ", replay.target, others));
  if (differs == 0) {
    std::cout << head << "the same bits in " << compared << " of " << compared << " digests\n";
    return kExitDone;
  }
  std::cout << head << "other bits after step " << differs << ", the first of " << compared << " digests that differs"
            << others << "\n";
  return kExitFailed;
}

}  // namespace ddprun
