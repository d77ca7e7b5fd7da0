// SPDX-License-Identifier: MIT
#include "launch/launcher.h"

#include "base/clock.h"
#include "base/line_folder.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/program.h"
#include "base/terminal.h"
#include "launch/hang_report.h"
#include "launch/orphans.h"
#include "launch/signal_inbox.h"
#include "launch/worker_handle.h"
#include "launch/worker_process.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <stdexcept>

namespace ddprun {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

constexpr std::chrono::seconds kStuckAfterKill{10};      // after that, a worker is left to the kernel
constexpr std::chrono::seconds kBetweenLooks{1};         // between checks of the heartbeats and the run's folder
constexpr std::chrono::milliseconds kSameKeyPress{100};  // `timeout -s INT` signals the program, then its group

fs::path make_logs_folder(const LaunchPlan& plan) {
  const fs::path folder = plan.place.attempt.run_dir / "logs";
  make_folder(folder);
  return folder;
}

// The files are not the user's own, so their failure is ours to report.
void write_ours(const std::function<void()>& write) try { write(); } catch (const UserError& error) {
  throw std::runtime_error(std::string(error.what()) +
                           "; TMPDIR names the folder of the files that workers and their launcher exchange");
}

std::string describe(const WorkerPlace& place, const std::string& device) {
  return log::text("attempt ", place.attempt.number, ": rank ", place.rank, " of ", place.attempt.world_size,
                   ", local rank ", place.local_rank, " of ", place.local_world_size, " on ", host_name(), ", ",
                   device);
}

// One attempt on this node, from the first fork to the last reaped worker.
class Launch {
 public:
  Launch(const LaunchPlan& plan, Orders* orders) : plan_(plan), orders_(orders), logs_(make_logs_folder(plan)) {
    const double left = plan.ends_at - wall_seconds();
    if (left > 0) stop_at_ = Clock::now() + seconds(left);
  }
  AttemptEnd run();

 private:
  void start_workers();
  void wait_for_something();
  void reap();
  void on_signal(int signal);
  void pause();
  void ask_to_stop(double grace_seconds);
  void kill_all();
  void keep_deadlines();
  void look();
  void watch_for_hangs();
  void look_for_the_cause();
  void obey();
  bool any_running() const;
  fs::path failure_file(int rank) const;
  std::optional<WorkerFailure> failure_of(int rank) const;
  AttemptEnd end();
  AttemptEnd end(FailureKind kind, const std::string& problem);

  const LaunchPlan& plan_;
  Orders* orders_;
  fs::path logs_;
  Adoption adoption_;
  SignalInbox inbox_;
  PrivateFolder private_folder_;
  TerminalWriter terminal_{STDERR_FILENO};
  LineFolder folder_{[this](const std::string& line) { terminal_.line(line); }};
  std::vector<std::unique_ptr<WorkerHandle>> workers_;

  int stop_signal_ = 0;  // the first signal by which the user asked for the end
  Time stopped_at_;
  bool at_once_ = false;
  bool failing_ = false;
  bool hung_ = false;
  Time looked_at_ = Clock::now(), awake_since_ = looked_at_;  // for hangs
  bool ending_ = false;                                       // the first worker exited with 75, and all should follow
  Time stop_at_ = Time::max();                                // when to stop the run by itself
  Time kill_at_ = Time::max();                                // when to send SIGKILL to those still running
  Time give_up_at_ = Time::max();                             // when to stop waiting after SIGKILL
};

AttemptEnd Launch::run() {
  try {
    start_workers();
  } catch (const UserError&) {
    throw;
  } catch (const std::runtime_error& error) {
    return end(FailureKind::kInternal, std::string("cannot start a worker: ") + error.what());
  }
  while (any_running() && Clock::now() < give_up_at_) {
    wait_for_something();
    for (const int signal : inbox_.take()) {
      if (signal != SIGCHLD) on_signal(signal);
    }
    obey();
    for (const auto& worker : workers_) worker->drain();
    reap();
    keep_deadlines();
    look();
    folder_.flush(Clock::now());
    terminal_.flush();
  }
  end_orphans(private_folder_.path());
  for (const auto& worker : workers_) {
    worker->finish_output();
    if (worker->running()) terminal_.line("ddprun: warning: " + worker->abandon());
  }
  folder_.finish();
  for (const int signal : inbox_.take()) {  // too late to stop anything, in time to prevent a restart
    if (signal != SIGCHLD && signal != SIGTSTP && stop_signal_ == 0) stop_signal_ = signal;
  }
  return end();
}

void Launch::start_workers() {
  const auto show = [this](int rank, std::string_view line) { folder_.add(rank, line, Clock::now()); };
  const auto warn = [this](const std::string& text) { terminal_.line("ddprun: warning: " + text); };
  const auto& folder = private_folder_.path();
  for (int index = 0; index < plan_.workers; ++index) {
    auto place = plan_.worker(index);
    const auto rank = std::to_string(place.rank);
    place.config = folder / "config.yaml";
    place.heartbeat = folder / ("heartbeat_" + rank);
    place.probe_answer = folder / ("probe_" + rank);
    place.failure = failure_file(place.rank);
    if (place.store.empty()) place.store = folder / "store";
    workers_.push_back(std::make_unique<WorkerHandle>(place.rank, logs_ / ("rank_" + rank + ".log"), show, warn));
    const auto file = folder / ("worker_" + rank + ".json");
    if (index == 0) write_ours([&] { replace_file(place.config, plan_.config); });
    write_ours([&] { write_place(file, place); });
    workers_.back()->watch(place.heartbeat, place.probe_answer);
    workers_.back()->start(describe(place, plan_.device),
                           {.command = plan_.command,
                            .environment = worker_environment(plan_.environment, place, file),
                            .cores = plan_.cores_of(place)});
  }
}

void Launch::wait_for_something() {
  std::vector<pollfd> polled{{inbox_.fd(), POLLIN, 0}};
  if (orders_ && orders_->fd() >= 0) polled.push_back({orders_->fd(), POLLIN, 0});
  if (terminal_.waiting()) polled.push_back({terminal_.fd(), POLLOUT, 0});
  for (const auto& worker : workers_) {
    for (const int fd : worker->fds()) polled.push_back({fd, POLLIN, 0});
  }
  const Time look_again = plan_.hang_seconds > 0 ? looked_at_ + kBetweenLooks : Time::max();
  const Time ask_again = orders_ ? Clock::now() + orders_->ask_within() : Time::max();
  const Time next =
      std::min({stop_at_, kill_at_, give_up_at_, look_again, ask_again, folder_.due().value_or(Time::max())});
  int timeout_ms = -1;
  if (next != Time::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    timeout_ms = static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
  }
  ::poll(polled.data(), polled.size(), timeout_ms);
}

// Reaps all that have ended before signalling any, so that a worker's own death is not taken for the launcher's doing.
void Launch::reap() {
  bool failed = false, preempted = false;
  for (const auto& worker : workers_) {
    worker->reap();
    failed = failed || worker->failed();
    preempted = preempted || worker->preempted();
  }
  reap_orphans([this](pid_t child) {
    return std::ranges::any_of(workers_, [child](const auto& worker) { return worker->is(child); });
  });
  if (failed && !std::exchange(failing_, true)) {
    if (orders_) orders_->failing();
    look_for_the_cause();
    ask_to_stop(plan_.failure_grace_seconds);
  }
  if (preempted && !std::exchange(ending_, true))
    kill_at_ = std::min(kill_at_, Clock::now() + seconds(plan_.grace_seconds));
}

void Launch::on_signal(int signal) {
  const Time now = Clock::now();
  if (signal == SIGTSTP) return pause();
  if (stop_signal_ == 0) {
    stop_signal_ = signal;
    stopped_at_ = now;
    if (!failing_ && !plan_.stopping.empty())
      terminal_.line("ddprun: " + plan_.stopping + "; Ctrl-C again ends at once");
    ask_to_stop(plan_.grace_seconds);
  } else if (signal == SIGINT && now - stopped_at_ > kSameKeyPress) {
    at_once_ = true;
    kill_all();
  } else {
    return;
  }
  if (orders_) orders_->signalled(signal, at_once_);
}

// Handles what other nodes want of this one.
void Launch::obey() {
  if (!orders_) return;
  const auto order = orders_->take();
  if (!order) return;
  if (*order == Order::Kind::kKill) return kill_all();
  if (*order == Order::Kind::kStop) return ask_to_stop(plan_.grace_seconds);
  if (!std::exchange(failing_, true)) look_for_the_cause();
  ask_to_stop(plan_.failure_grace_seconds);
}

// Ctrl-Z: a terminal stops only its own process group, and the workers have groups of their own.
void Launch::pause() {
  for (const auto& worker : workers_) worker->pause();
  ::raise(SIGSTOP);  // returns after the shell's fg or bg
  for (const auto& worker : workers_) worker->unpause();
}

void Launch::ask_to_stop(double grace_seconds) {
  for (const auto& worker : workers_) worker->send(SIGTERM);
  kill_at_ = std::min(kill_at_, Clock::now() + seconds(grace_seconds));
}

void Launch::kill_all() {
  for (const auto& worker : workers_) worker->send(SIGKILL);
  kill_at_ = Time::max();
  give_up_at_ = std::min(give_up_at_, Clock::now() + kStuckAfterKill);
}

void Launch::keep_deadlines() {
  const auto now = Clock::now();
  if (now >= stop_at_) {
    stop_at_ = Time::max();
    if (stop_signal_ == 0) terminal_.line("ddprun: the job's time is nearly over");
    on_signal(SIGUSR1);
  }
  if (now >= kill_at_) kill_all();
}

// If this process itself was stopped (Ctrl-Z, a suspended machine), the time of hangs starts anew.
void Launch::look() {
  const Time now = Clock::now();
  if (plan_.hang_seconds <= 0 || now < looked_at_ + kBetweenLooks) return;
  if (now - std::exchange(looked_at_, now) > 5 * kBetweenLooks) awake_since_ = now;
  if (failing_) return;
  if (kill_at_ == Time::max()) watch_for_hangs();
}

// A worker moves at every step. One that does not keeps all others waiting in their collectives, possibly forever.
void Launch::watch_for_hangs() {
  hung_ = any_stalled(workers_, awake_since_, plan_.hang_seconds, /*also_starting=*/false);
  if (!hung_) return;
  note_stalls(workers_, plan_, awake_since_);
  failing_ = true;
  if (orders_) orders_->failing();
  ask_to_stop(plan_.failure_grace_seconds);
}

// Looks for the cause of a failure here or at another node: if a collective timed out, a worker that it waited for is
// stalled.
void Launch::look_for_the_cause() {
  hung_ = plan_.timeout_seconds > 0 &&
          any_stalled(workers_, awake_since_, plan_.timeout_seconds / 2, /*also_starting=*/true);
  note_stalls(workers_, plan_, awake_since_);
}

bool Launch::any_running() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->running(); });
}

fs::path Launch::failure_file(int rank) const {
  return private_folder_.path() / ("failure_" + std::to_string(rank) + ".json");
}

// Returns the failure, with the plugin's place in the experiment if it came from one.
std::optional<WorkerFailure> Launch::failure_of(int rank) const {
  auto failure = read_failure(failure_file(rank));
  if (failure && !failure->section.empty())
    failure->message = plan_.place_of(failure->section) + ": " + failure->message;
  return failure;
}

AttemptEnd Launch::end() {
  AttemptEnd end{.stop_signal = stop_signal_, .at_once = at_once_, .hung = hung_};
  for (const auto& worker : workers_) {
    end.workers.push_back(worker->end());
    end.workers.back().host = plan_.host;
    auto failure = failure_of(worker->rank());
    if (!failure) continue;
    if (failure->kind != FailureKind::kSignal) worker->log_failure(failure->message);
    end.workers.back().failure = std::move(failure);
  }
  return end;
}

// Ends the attempt for a problem of the launcher's own, which is reported as that of the last worker.
AttemptEnd Launch::end(FailureKind kind, const std::string& problem) {
  auto end = this->end();
  auto& culprit = end.workers.back();
  culprit.signal = 0;
  culprit.exit_code = kExitFailed;
  culprit.failure = WorkerFailure{.rank = culprit.rank, .kind = kind, .message = problem};
  return end;
}

}  // namespace

std::string LaunchPlan::place_of(const std::string& section) const {
  const auto found = plugins.find(section);
  return found == plugins.end() ? section : found->second;
}

WorkerPlace LaunchPlan::worker(int index) const {
  auto worker = place;
  worker.attempt.run_dir = fs::absolute(place.attempt.run_dir);
  worker.rank = place.attempt.first_rank + index;
  worker.local_rank += index;
  if (place.gpu < 0) worker.gpu = shared_gpus > 0 ? worker.local_rank % shared_gpus : worker.local_rank;
  return worker;
}

std::vector<int> LaunchPlan::cores_of(const WorkerPlace& worker) const {
  const bool is_known = worker.gpu >= 0 && worker.gpu < std::ssize(cores);
  return is_known ? cores[worker.gpu] : std::vector<int>();
}

LaunchResult launch_workers(const LaunchPlan& plan) { return judge_ends(Launch(plan, nullptr).run()); }

AttemptEnd run_attempt(const LaunchPlan& plan, Orders& orders) { return Launch(plan, &orders).run(); }

}  // namespace ddprun
