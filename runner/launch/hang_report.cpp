// SPDX-License-Identifier: MIT
#include "launch/hang_report.h"

#include "base/line_folder.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <sstream>
#include <tuple>

namespace ddprun {
namespace {

// Starting may take long: it is a hang only where another rank has given up waiting for it.
bool is_starting(const Stall& still) { return still.activity == Activity::kStarting; }

// Nobody knows what it is doing, and it came to its place long after the one that has stood still for `longest`
// seconds: it may wait for a GPU, where that one is missing.
bool came_late(const Stall& still, double longest) {
  constexpr double kLate = 0.75;
  return still.doing.empty() && still.seconds < kLate * longest;
}

// The smallest place is the rank that keeps the others waiting: at the same place, one that does not wait itself or
// that somebody has stopped.
auto place(const Stall& still, double longest) {
  const bool stopped = still.state == 'T' || still.state == 't';
  const bool waits = still.waits || (!stopped && came_late(still, longest));
  return std::tuple(still.step, still.activity, waits, !stopped);
}

std::string describe_place(const Stall& still) {
  return "step " + std::to_string(still.step) + ", " + name_of(still.activity) +
         (still.doing.empty() ? "" : ", " + still.doing);
}

// Explains the letters of /proc/PID/stat.
const char* describe_state(char state) {
  switch (state) {
    case 'T': return "; the process is stopped (SIGSTOP)";
    case 't': return "; a debugger holds the process";
    case 'D': return "; the process is waiting in the kernel: for a disk, a network file system or a driver";
    case 'R': return "; the process is computing";
    default: return "";
  }
}

}  // namespace

// All ranks meet in every step, so a rank that is behind another keeps it waiting.
std::optional<LaunchResult> judge_hang(const AttemptEnd& end, const WorkerEnd* lost) {
  std::vector<const WorkerEnd*> still;
  for (const auto& worker : end.workers) {
    const bool may_stall = worker.stall && (lost || !is_starting(*worker.stall));
    if (may_stall && !worker.failure) still.push_back(&worker);
  }
  if (still.empty()) return std::nullopt;
  double longest = 0;
  for (const auto* worker : still) longest = std::max(longest, worker->stall->seconds);
  const auto place_of = [longest](const WorkerEnd* worker) { return place(*worker->stall, longest); };
  const auto [least, most] = std::ranges::minmax_element(still, {}, place_of);
  const auto *last = *least, *first = *most;
  std::ostringstream text;
  char seconds[32];
  const bool all_equal = place_of(last) == place_of(first);
  std::snprintf(seconds, sizeof seconds, "%.0f s", all_equal ? longest : last->stall->seconds);
  if (all_equal && still.size() > 1) {
    text << "all ranks have stalled for " << seconds << " at " << describe_place(*last->stall)
         << ": the network between them, or a device";
  } else {
    text << "rank " << last->rank << (last->host.empty() ? "" : " on " + last->host) << " has hung for " << seconds
         << " at " << describe_place(*last->stall) << describe_state(last->stall->state);
  }
  const auto message = text.str();
  text << "\n";
  std::map<std::string, std::set<int>> places;
  for (const auto* worker : still) {
    if (worker != last) places[describe_place(*worker->stall)].insert(worker->rank);
  }
  for (const auto& [where, ranks] : places) text << "  " << name_ranks(ranks) << " at " << where << "\n";
  const bool some_wait = std::ranges::any_of(still, [](const WorkerEnd* worker) { return worker->stall->waits; });
  if (some_wait) text << "  collectives: " << (last->log.parent_path() / "under_way_rank_*.json").string() << "\n";
  if (lost) {
    text << "  rank " << lost->rank << " gave up: " << lost->failure->message << "\n";
  } else {
    text << "  launch.hang_seconds sets how long a rank may stall\n";
  }
  text << "  log: " << last->log.string() << "\n";
  for (const auto& line : last->last_lines) text << "    | " << line << "\n";
  return LaunchResult{.exit_code = kExitFailed,
                      .report = text.str(),
                      .failed_at = last->time,
                      .cause = WorkerFailure{.rank = last->rank,
                                             .time = last->time,
                                             .kind = FailureKind::kHang,
                                             .message = message,
                                             .phase = name_of(last->stall->activity),
                                             .step = static_cast<long>(last->stall->step)}};
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(2);  // who has not answered by then is waiting in the kernel
constexpr int kBetweenLooksMs = 5;

// Waits until all have answered, or until kPatience is over.
void wait_for_answers(const std::vector<const WorkerHandle*>& asked) {
  const auto give_up_at = Clock::now() + kPatience;
  const auto answered = [](const WorkerHandle* worker) { return worker->probe_answer().has_value(); };
  while (!std::ranges::all_of(asked, answered) && Clock::now() < give_up_at) ::poll(nullptr, 0, kBetweenLooksMs);
}

std::string describe(const ProbeAnswer& probe_answer, const LaunchPlan& plan) {
  if (probe_answer.name.empty()) return "";
  const bool alone = plan.place.attempt.world_size == 1;
  if (probe_answer.waits()) return (alone ? "waits for " : "waits for the others: ") + probe_answer.name;
  return "in " + probe_answer.name + "() of " + plan.place_of(probe_answer.section);
}

// Returns how long a worker may stall before it looks hung: half the time after which the attempt is ended.
double suspicious_seconds(const LaunchPlan& plan) {
  double least = std::numeric_limits<double>::infinity();
  for (const double seconds : {plan.hang_seconds, plan.timeout_seconds}) {
    if (seconds > 0) least = std::min(least, seconds / 2);
  }
  return least;
}

}  // namespace

bool any_stalled(const Workers& workers, Clock::time_point awake_since, double seconds, bool also_starting) {
  return std::ranges::any_of(workers, [&](const auto& worker) {
    const auto still = worker->stall(awake_since);
    return still && still->seconds >= seconds && (also_starting || !is_starting(*still));
  });
}

void note_stalls(const Workers& workers, const LaunchPlan& plan, Clock::time_point awake_since) {
  std::vector<const WorkerHandle*> asked;
  for (const auto& worker : workers) {
    const auto still = worker->stall(awake_since);
    if (!still || still->seconds < suspicious_seconds(plan)) continue;
    const bool stopped = still->state == 'T' || still->state == 't';  // it cannot answer
    if (!stopped && worker->probe_worker()) asked.push_back(worker.get());
  }
  wait_for_answers(asked);
  for (const auto& worker : workers) {
    auto still = worker->stall(awake_since);
    if (!still) continue;
    if (const auto probe_answer = worker->probe_answer()) {
      still->doing = describe(*probe_answer, plan);
      still->waits = probe_answer->waits();
    }
    worker->note_stall(std::move(*still));
  }
}

}  // namespace ddprun
