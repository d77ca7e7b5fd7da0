// SPDX-License-Identifier: MIT
#include "launch/stalls.h"

#include <poll.h>

#include <algorithm>
#include <limits>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(2);  // who has not answered by then is waiting in the kernel
constexpr int kBetweenLooksMs = 5;

// Waits until all have answered, or until kPatience is over.
void wait_for_answers(const std::vector<const Worker*>& asked) {
  const auto give_up_at = Clock::now() + kPatience;
  const auto answered = [](const Worker* worker) { return worker->probe_answer().has_value(); };
  while (!std::ranges::all_of(asked, answered) && Clock::now() < give_up_at) ::poll(nullptr, 0, kBetweenLooksMs);
}

std::string describe(const ProbeAnswer& probe_answer, const LaunchPlan& plan) {
  if (probe_answer.name.empty()) return "";
  if (probe_answer.waits()) return "waits for the others: " + probe_answer.name;
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

bool any_stalled(const Workers& workers, Clock::time_point awake_since, double seconds) {
  return std::ranges::any_of(workers, [&](const auto& worker) {
    const auto still = worker->stall(awake_since);
    return still && still->seconds >= seconds;
  });
}

void note_stalls(const Workers& workers, const LaunchPlan& plan, Clock::time_point awake_since) {
  std::vector<const Worker*> asked;
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
