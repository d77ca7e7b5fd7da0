// SPDX-License-Identifier: MIT
#include "launch/failure_report.h"

#include "base/line_folder.h"
#include "base/spawn.h"
#include "launch/hang_report.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <sstream>
#include <tuple>

namespace ddprun {
namespace {

bool failed(const WorkerEnd& end) {
  if (end.signal != 0) return !end.killed_by_launcher;
  return end.exit_code != kExitDone && end.exit_code != kExitPreempted;
}

// A rank whose collective failed more often reports another's death than a fault of its own. NCCL's watchdog ends it by
// SIGABRT; any other signal is a fault of its own, whatever it reported before.
bool secondary(const WorkerEnd& end) {
  const bool by_itself = end.signal == 0 || end.signal == SIGABRT;
  return by_itself && end.failure && end.failure->kind == FailureKind::kCommunication;
}

// A process may take long to end: the time is that of its own report, unless another signal than that of a crash came.
double failing_time(const WorkerEnd& end) {
  const bool of_this =
      end.signal == 0 || end.signal == SIGABRT || (end.failure && end.failure->kind == FailureKind::kSignal);
  return of_this && end.failure && end.failure->time > 0 ? end.failure->time : end.time;
}

const WorkerEnd* root_cause(const std::vector<WorkerEnd>& ends) {
  const WorkerEnd* root = nullptr;
  const auto order = [](const WorkerEnd& end) { return std::tuple(secondary(end), failing_time(end), end.rank); };
  for (const auto& end : ends) {
    if (failed(end) && (root == nullptr || order(end) < order(*root))) root = &end;
  }
  return root;
}

std::string describe_cause(const WorkerEnd& end) {
  const bool says_where = end.failure && end.failure->kind == FailureKind::kSignal;
  if (end.signal == SIGABRT && end.failure && !says_where)
    return end.failure->message + " (" + signal_name(end.signal) + ")";
  const auto where = says_where ? end.failure->message + " " : "";
  if (end.signal != 0) return where + "killed by " + describe_signal(end.signal);
  if (end.failure && !end.failure->message.empty()) return end.failure->message;
  return "exit code " + std::to_string(end.exit_code) + " without a message about the cause";
}

std::string describe_moment(const std::string& phase, int64_t step) {
  if (step < 0) return phase;
  return phase + (phase.empty() ? "after " : ", after ") + std::to_string(step) + (step == 1 ? " step" : " steps");
}

std::string describe_moment(const WorkerEnd& end) {
  if (end.signal == 0) return end.failure ? describe_moment(end.failure->phase, end.failure->step) : "";
  return end.stall ? describe_moment(name_of(end.stall->activity), end.stall->step) : "";
}

bool same_cause(const WorkerEnd& end, const WorkerEnd& other) {
  return end.signal == 0 && other.signal == 0 && end.failure && other.failure &&
         end.failure->kind == other.failure->kind && end.failure->message == other.failure->message;
}

std::string describe_fate(const WorkerEnd& end, const WorkerEnd& root) {
  if (end.killed_by_launcher) return "ended by the launcher";
  if (end.signal != 0) return secondary(end) ? "lost contact" : "killed by " + signal_name(end.signal);
  if (end.exit_code == kExitDone) return "done";
  if (end.exit_code == kExitPreempted) return "preempted";
  if (same_cause(end, root)) return "failed in the same way";
  if (secondary(end)) return "lost contact";
  return "failed too";
}

// Returns "other ranks: 0-1 lost contact, 3 ended by the launcher".
std::string describe_others(const std::vector<WorkerEnd>& ends, const WorkerEnd& root) {
  std::map<std::string, std::set<int>> fates;
  for (const auto& end : ends) {
    if (&end != &root) fates[describe_fate(end, root)].insert(end.rank);
  }
  std::string text;
  for (const auto& [fate, ranks] : fates) text += (text.empty() ? "" : ", ") + join_numbers(ranks) + " " + fate;
  return text;
}

// Returns whether the message has it all: where, what was found, what to do.
bool says_all_by_itself(FailureKind kind) {
  return kind == FailureKind::kUser || kind == FailureKind::kMemory || kind == FailureKind::kReplicas;
}

std::string report(const std::vector<WorkerEnd>& ends, const WorkerEnd& root) {
  std::ostringstream text;
  const bool alone = ends.size() == 1;
  const bool explained = root.signal == 0 && root.failure;
  const bool says_all = explained && says_all_by_itself(root.failure->kind);
  const bool all =
      !alone && says_all && std::ranges::all_of(ends, [&](const auto& end) { return same_cause(end, root); });
  if (all) {
    text << "all ranks failed: ";
  } else {
    text << "rank " << root.rank << (root.host.empty() ? "" : " on " + root.host)
         << (alone ? " failed: " : " failed first: ");
  }
  text << describe_cause(root) << "\n";
  const auto moment = describe_moment(root);
  if (!moment.empty() && !says_all) text << "  while: " << moment << "\n";
  if (!alone && !all) text << "  other ranks: " << describe_others(ends, root) << "\n";
  if (!root.log.empty()) text << "  log: " << root.log.string() << "\n";
  if (says_all) return text.str();
  for (const auto& line : root.last_lines) text << "    | " << line << "\n";
  return text.str();
}

int exit_code_of(const WorkerEnd& root) {
  if (root.signal != 0) return kExitSignalBase + root.signal;
  return root.exit_code == kExitUsage ? kExitUsage : kExitFailed;
}

// Returns whether a worker that a signal ended may have trained in this attempt.
bool had_begun(const WorkerEnd& end) {
  return !end.stall || (end.stall->activity != Activity::kStarting && end.stall->activity != Activity::kConnecting);
}

// Judges an attempt in which nobody failed: all are done or saved, or the user's signal ended some before they could
// save. Where none had begun to train, nothing is lost, and the run can be run again as one that was saved.
LaunchResult judge_without_failure(const std::vector<WorkerEnd>& ends, int stop_signal) {
  LaunchResult result{.exit_code = kExitDone, .stop_requested = stop_signal != 0};
  for (const auto& end : ends) {
    if (end.signal == 0 && end.exit_code == kExitPreempted) result.exit_code = kExitPreempted;
  }
  std::set<int> unsaved;
  bool begun = false;
  for (const auto& end : ends) {
    if (end.signal == 0 && !failed(end)) continue;
    unsaved.insert(end.rank);
    begun = begun || had_begun(end);
  }
  if (unsaved.empty()) return result;
  const bool to_be_run_again = !begun && std::ranges::find(kStopSignals, stop_signal) != kStopSignals.end();
  result.exit_code = to_be_run_again ? kExitPreempted : kExitSignalBase + (stop_signal != 0 ? stop_signal : SIGKILL);
  result.report = name_ranks(unsaved) + (begun ? " did not save before the end; the last checkpoint is an earlier one\n"
                                               : " had not started to train before the end; run it again\n");
  return result;
}

const char* likely_cause(int signal) {
  switch (signal) {
    case SIGKILL: return ": often the kernel's out-of-memory killer (see dmesg), or a kill -9";
    case SIGSEGV: return ": an invalid memory access, in a plugin or a library";
    case SIGBUS: return ": often a full /dev/shm, or a mapped file that was cut off";
    case SIGABRT: return ": a failed assertion, an uncaught exception, or NCCL's watchdog after a time-out";
    case SIGILL: return ": an instruction that this CPU lacks";
    case SIGFPE: return ": an integer division by zero";
    case SIGTERM: return ": somebody asked this one process to end";
    case SIGXCPU: return ": the limit of CPU time (ulimit -t)";
    case SIGXFSZ: return ": the limit of a file's size (ulimit -f)";
    default: return "";
  }
}

}  // namespace

std::string describe_signal(int signal) {
  const auto name = signal_name(signal);
  const bool has_a_name = name.starts_with("SIG");
  return name + (has_a_name ? " (" + std::to_string(signal) + ")" : "") + likely_cause(signal);
}

std::string headline(const std::string& report) { return report.substr(0, report.find('\n')); }

LaunchResult judge_ends(const AttemptEnd& end) {
  if (end.at_once) return {.exit_code = kExitSignalBase + SIGINT, .report = {}, .stop_requested = true};
  const auto& workers = end.workers;
  const WorkerEnd* root = root_cause(workers);
  // Workers that the user's signal ended also break the others' collectives.
  const bool ended_some =
      std::any_of(workers.begin(), workers.end(), [](auto& worker) { return worker.killed_by_launcher; });
  const bool only_lost_contact = root != nullptr && secondary(*root);
  if (end.hung && (root == nullptr || only_lost_contact)) {
    if (auto hang = judge_hang(end, root)) return *hang;
  }
  if (root == nullptr || (end.stop_signal != 0 && ended_some && only_lost_contact)) {
    return judge_without_failure(workers, end.stop_signal);
  }
  return {.exit_code = exit_code_of(*root),
          .report = report(workers, *root),
          .failed_at = failing_time(*root),
          .stop_requested = end.stop_signal != 0,
          .cause = root->signal == 0 ? root->failure : std::nullopt};
}

}  // namespace ddprun
