// SPDX-License-Identifier: MIT
#include "worker/worker.h"

#include "base/allocator.h"
#include "base/clock.h"
#include "base/communication_error.h"
#include "base/log.h"
#include "config/key_path.h"
#include "launch/worker_process.h"
#include "plugin_host/plugin_call.h"
#include "sharing/out_of_memory.h"
#include "step/held_state.h"
#include "worker/crash_handler.h"

#include <ddprun/error.h>

#include <c10/util/Exception.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace ddprun {
namespace {

volatile std::sig_atomic_t stop_signal = 0;
volatile std::sig_atomic_t is_heard = 0;  // the training has begun to ask for it
constexpr unsigned kPatienceSeconds = 5;

bool stop_requested() {
  is_heard = 1;
  return stop_signal != 0;
}

void note_stop(int signal) {
  stop_signal = signal;
  if (!is_heard) ::alarm(kPatienceSeconds);
}

// Ends a worker that still waits for its data, say, and so hears of nothing: it has trained nothing that could be lost.
void end_unheard(int) {
  if (is_heard) return;
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
}

// Handles SIGTERM as a request to end in order; the launcher sends it for Ctrl-C too, so the terminal's own SIGINT is
// left to it. A closed reader of our output (`| head`) does not end the training.
void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = note_stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  std::signal(SIGALRM, end_unheard);
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

// A failure that ended a task, shown by the launcher in its report and in the rank's log.
struct Problem {
  FailureKind kind;
  std::string message;
  int exit_code = kExitFailed;
  std::string section = {};  // the experiment's, if a plugin threw it
};

const char* phase_of(const WorkerTask* task) { return task ? task->phase() : "starting"; }

int report(const WorkerPlace& place, const WorkerTask* task, const Problem& problem) {
  const WorkerFailure failure{.rank = place.rank,
                              .time = steady_seconds(),
                              .kind = problem.kind,
                              .message = problem.message,
                              .phase = phase_of(task),
                              .step = task ? task->step() : -1,
                              .section = problem.section};
  if (!write_failure(place.failure, failure))
    log::error((problem.section.empty() ? "" : problem.section + ": ") + problem.message);
  return problem.exit_code;
}

std::unique_ptr<WorkerTask> make_task(const WorkerPlace& place) {
  const bool trains = place.task == Task::kTrain;
  if (trains) install_signal_handlers();  // otherwise signals end it at once
  unblock_stop_signals();
  return trains ? make_train_task(place, stop_requested) : make_inference(place);
}

// Separates the key that an error of the experiment begins with: the launcher knows where it is written.
Problem of_user(const std::string& message, int exit_code) {
  auto [key, text] = split_message(message);
  return {.kind = FailureKind::kUser, .message = std::move(text), .exit_code = exit_code, .section = std::move(key)};
}

// Describes the exception that is being handled.
Problem problem_of(const WorkerTask* task) {
  const int code = task && task->step() >= 0 ? kExitFailed : kExitUsage;
  try {
    throw;
  } catch (const OutOfMemory& error) {
    return {.kind = FailureKind::kMemory, .message = error.what()};
  } catch (const PluginMistake& error) {
    return {.kind = FailureKind::kUser, .message = error.problem, .exit_code = code, .section = error.section};
  } catch (const UserError& error) {
    return of_user(error.what(), code);
  } catch (const ReplicasDiffer& error) {
    return {.kind = FailureKind::kReplicas, .message = error.what()};
  } catch (const PluginFailure& error) {
    return {.kind = FailureKind::kInternal, .message = error.problem, .section = error.section};
  } catch (const CommunicationError& error) {
    return {.kind = FailureKind::kCommunication, .message = error.what()};
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) {
      const OutOfMemory explained(error, log::text("while ", phase_of(task)), advice_for_all_else());
      return {.kind = FailureKind::kMemory, .message = explained.what()};
    }
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    return {.kind = FailureKind::kInternal, .message = of_torch ? of_torch->what_without_backtrace() : error.what()};
  }
}

}  // namespace

int run_worker() {
  keep_freed_memory();
  const auto place = read_place();
  log::set_prefix("rank " + std::to_string(place.rank));
  install_crash_handler("ddprun: rank " + std::to_string(place.rank) + ": ", place.failure, place.rank);
  refuse_exit(/*anywhere=*/true);
  answer_launcher(place.probe_answer);
  std::unique_ptr<WorkerTask> task;
  try {
    task = make_task(place);
    const int code = task->run();
    const int reported = code == kExitDone ? kWorkerDone : code;
    ignore_throws_of_the_end(reported);
    return reported;
  } catch (const std::exception&) {
    return report(place, task.get(), problem_of(task.get()));
  }
}

}  // namespace ddprun
