// SPDX-License-Identifier: MIT
#include "agent/first_node.h"

#include "agent/chosen_checkpoint.h"
#include "agent/run_end.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "config/idle_settings.h"
#include "launch/event_log.h"
#include "launch/signal_inbox.h"
#include "metrics/run_summary.h"
#include "plugin_host/carried_plugins.h"
#include "runs/run_state.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <torch/headeronly/version.h>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAnswerWithin{10};  // a file system that takes longer may hang
constexpr std::chrono::milliseconds kLook{50};     // between looks for signals

[[noreturn]] void end_at_once(int exit_code) {
  log::error("ended before all of the run's end was recorded");
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(exit_code);
}

void show_checkpoint(const fs::path& folder) try {
  std::vector<CheckpointFlaw> known_already;
  if (newest_checkpoint(folder, known_already))
    log::info("resume from the last checkpoint with: ddprun resume " + folder.string());
} catch (const UserError& error) {
  log::warn(error.what());
}

}  // namespace

FirstNode::FirstNode(const NodeSetup& setup, const RunRequest& request, const CommonPart& common)
    : setup_(setup), request_(request), common_(common), since_command_(request.started_at) {}

void FirstNode::make_run() {
  if (!setup_.launch.warning.empty()) log::warn(located(setup_.launch.warning, request_.checked.places));
  for (const auto& warning : idle_settings(request_.checked.experiment)) log::warn(warning);
  if (setup_.placement.engine_restarts && setup_.config.max_restarts > 0)
    log::info("launch.max_restarts: " + std::string(word_of(setup_.placement.engine)) +
              " restarts this job itself (--max-restarts); ddprun does not");
  require_sidecars(request_.checked.sidecars);
  // Opened only now that this node listens, so that a failure to listen shows before the other nodes are kept busy.
  auto run = open_run(request_.resumed, request_.checked, setup_.placement);
  inform_caller(run.folder.path());
  request_.early.reset();
  const std::scoped_lock lock(mutex_);
  run_.emplace(std::move(run));
}

Coordinator::Begin FirstNode::begin() {
  return [this](int world_size, int nodes) { return begin(world_size, nodes); };
}

Coordinator::Notify FirstNode::notify() {
  return [this](bool warning, const std::string& text) {
    warning ? log::warn(text) : log::info(text);
    const std::scoped_lock lock(mutex_);
    if (warning) note("failure", headline(text));
  };
}

Order FirstNode::begin(int world_size, int nodes) {
  const std::scoped_lock lock(mutex_);
  const auto& experiment = request_.checked.experiment;
  require_a_part_for_each(experiment.trainer, world_size,
                          log::text("the ", world_size, " workers of ", nodes, " nodes"));
  auto& folder = run_->folder;
  const auto warning = small_parts_warning(experiment.trainer, world_size);
  if (!begun_ && !warning.empty()) log::warn(located(warning, request_.checked.places));
  world_size_ = world_size;
  fs::path newest;
  begin_with({.end = End::kAtOnce},
             [&] { newest = checkpoint_to_begin_from(); });  // nothing is written if it is refused
  begin_with({.slow = no_answer(), .end = End::kAfterwards}, [&] { write_beginning(); });
  sidecars_.start(request_.checked.sidecars, folder.path());
  const auto& checkpoint = newest.empty() ? run_->checkpoint : newest;
  if (attempt_ > 0 && checkpoint.empty())
    log::info("no checkpoint yet in " + folder.path().string() + ": starting it from the beginning");
  note("attempt",
       log::text(world_size, world_size == 1 ? " worker" : " workers", " on ", nodes, nodes == 1 ? " node" : " nodes",
                 checkpoint.empty() ? "" : ", from " + checkpoint.filename().string()));
  return {.attempt = {.number = attempt_,
                      .run_dir = folder.path(),
                      .checkpoint = checkpoint,
                      .mark = setup_.standalone() ? "" : folder.leave_mark(),
                      .first_node = setup_.host},
          .experiment = common_};
}

// Verifying may take minutes.
fs::path FirstNode::checkpoint_to_begin_from() {
  const auto& folder = run_->folder.path();
  if (held_) held_->require();
  if (!begun_) earlier_seconds_ = read_run_end(folder).total_seconds;
  auto found = checkpoint_steps(folder).empty() ? fs::path() : checkpoint_to_resume(folder);
  note_whether_it_trained();
  return found;
}

void FirstNode::write_beginning() {
  auto& folder = run_->folder;
  attempt_ = folder.begin_attempt();
  begun_ = true;
  const auto files = files_of(request_.checked.plugins);
  if (request_.carries_plugins) carry_built_plugins(files, folder.path());
  folder.record({.config_yaml = to_yaml(request_.checked.experiment.config, /*origins=*/true),
                 .overrides = request_.overrides,
                 .arguments = request_.words,
                 .versions = {{"ddprun", DDPRUN_VERSION}, {"libtorch", TORCH_VERSION}},
                 .plugin_files = files});
  held_ = std::make_shared<const HeldFolder>(folder.path());
}

int FirstNode::conclude(const LaunchResult& result) {
  int exit_code = result.exit_code;
  bool has_trained = false;
  if (!result.report.empty()) log::error(result.report);
  const auto code = exit_code == kExitDone ? kExitFailed : exit_code;
  wait_for({.slow = no_answer(), .asked = result.stop_requested, .exit_code = code},
           [&] { has_trained = record_end(result); });
  if (has_trained)
    wait_for({.slow = "the run's end is recorded, its report is still being written", .exit_code = code},
             [&] { exit_code = report_end(result); });
  if (const auto names = sidecars_.names(); has_trained && !names.empty())
    wait_for(
        {.slow = "the run's end is recorded, its last rows are still being sent to " + names, .exit_code = exit_code},
        [&] { send_rest(sidecars_, run_->folder.path(), result.stop_requested); });
  return exit_code;
}

// Records the end in the run's folder. Returns whether there is more to say: an attempt trained, and the folder is
// still the run's.
bool FirstNode::record_end(const LaunchResult& result) try {
  run_->folder.discard_if_unbegun();
  if (!begun_) return false;  // what an earlier attempt left stays as it is
  if (held_ && !held_->is_there()) {
    if (result.report.find(held_->problem()) == result.report.npos) log::warn(held_->problem());
    return false;
  }
  note_whether_it_trained();
  run_->folder.drop_waiting_record();
  const auto& folder = run_->folder.path();
  if (!result.report.empty()) note("failure", headline(result.report));
  if (!trained_) {
    log::info(folder.string() + " is as it was before");
    return false;
  }
  if (!result.report.empty()) {
    record_failure(result);
  } else {
    const auto end = read_run_end(folder);
    note("end", end.status + ": " + end.stop_reason);
  }
  return true;
} catch (const UserError& error) {
  log::warn(error.what());
  return true;
}

void FirstNode::record_failure(const LaunchResult& result) const {
  const auto& folder = run_->folder.path();
  auto [end, history] = recorded_end(folder);
  end.status = word_of(RunStatus::kFailed);
  end.stop_reason = headline(result.report);
  end.total_seconds = earlier_seconds_ + since_command_.seconds();
  end.world_size = world_size_;
  try {
    write_summary(folder, {.end = end, .attempt = attempt_, .history = history, .loggers = read_troubles(folder)});
  } catch (const UserError& error) {
    log::warn(error.what());  // the run's own failure is the one to report
  }
}

// Writes the report, says what to do next, and returns the exit code.
int FirstNode::report_end(const LaunchResult& result) const {
  const auto& folder = run_->folder.path();
  const auto& experiment = request_.checked.experiment;
  const bool failed = !result.report.empty();
  if (failed) show_checkpoint(folder);
  close_run(folder);
  if (result.exit_code == kExitPreempted && !failed) show_how_to_resume(folder, experiment.is_range_test());
  const int exit_code = failed ? result.exit_code : report_what_is_missing(folder, result.exit_code);
  return exit_code == kExitDone && experiment.is_range_test() ? show_suggested_lr(folder) : exit_code;
}

// Notes whether the last attempt trained; if none did, the run's config and summary stay those of the previous
// command.
void FirstNode::note_whether_it_trained() { trained_ = trained_ || (begun_ && !run_->folder.record_waits()); }

void FirstNode::note(const char* kind, const std::string& text) {
  if (!run_ || !begun_) return;
  post([folder = run_->folder.path(), held = held_,
        event = LaunchEvent{.attempt = attempt_, .kind = kind, .text = text}] {
    if (!held || held->is_there()) append_event(folder, event);  // the run's end reports a folder that is gone
  });
}

std::string FirstNode::no_answer() const {
  return log::text(run_->folder.path().string(), ": its file system has not answered for ", kAnswerWithin.count(),
                   " s");
}

// Does a part of begin(). With several nodes another thread hears signals meanwhile.
void FirstNode::begin_with(const Patience& patience, const std::function<void()>& job) {
  setup_.standalone() ? wait_for(patience, job) : job();
}

// Does the job aside and waits for it. Where a user who asks for the end gets it before the job is done, the process
// ends here: its thread still uses what the destructors would destroy.
void FirstNode::wait_for(const Patience& patience, const std::function<void()>& job) {
  const auto done = post(job);
  const auto heard = hear_signals(patience);
  for (const int signal : heard) {
    if (patience.end == End::kAfterwards) ::raise(signal);
  }
  done.get();
}

// Does the job aside, after those that were posted before.
std::shared_future<void> FirstNode::post(std::function<void()> job) {
  const std::scoped_lock lock(jobs_);
  return last_job_ = aside([before = last_job_, job = std::move(job)] {
           if (before.valid()) before.wait();
           job();
         });
}

std::shared_future<void> FirstNode::last_job() {
  const std::scoped_lock lock(jobs_);
  return last_job_;
}

// Returns the signals that ask for the end and came before all jobs were done.
std::vector<int> FirstNode::hear_signals(const Patience& patience) {
  SignalInbox signals;
  std::vector<int> heard;
  const Stopwatch waited;
  for (bool warned = false; last_job().wait_for(kLook) != std::future_status::ready;) {
    for (const int signal : signals.take()) {
      if (signal == SIGTSTP) ::raise(SIGSTOP);
      if (signal != SIGTSTP && signal != SIGCHLD) heard.push_back(signal);
    }
    if (patience.end == End::kAtOnce && !heard.empty()) end_unbegun(heard.front());
    if (patience.slow.empty() || seconds(waited.seconds()) < kAnswerWithin) continue;
    const bool asked = patience.asked || !heard.empty();
    if (!std::exchange(warned, true)) log::warn(patience.slow + (asked ? "" : "; Ctrl-C ends without it"));
    if (!asked) continue;
    if (patience.end == End::kAfterwards) end_unbegun(heard.front());
    end_at_once(patience.exit_code);
  }
  return heard;
}

}  // namespace ddprun
