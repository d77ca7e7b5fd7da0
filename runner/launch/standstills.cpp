// SPDX-License-Identifier: MIT
#include "launch/standstills.h"

#include <poll.h>

#include <algorithm>
#include <limits>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(2);  // who has not answered by then waits in the kernel
constexpr int kBetweenLooksMs = 5;

// Waits until all have answered, or for as long as patience lasts.
void hear_all(const std::vector<const Worker*>& asked) {
  const auto give_up_at = Clock::now() + kPatience;
  const auto answered = [](const Worker* worker) { return worker->whereabouts().has_value(); };
  while (!std::ranges::all_of(asked, answered) && Clock::now() < give_up_at) ::poll(nullptr, 0, kBetweenLooksMs);
}

std::string describe(const Whereabouts& whereabouts, const LaunchPlan& plan) {
  if (whereabouts.name.empty()) return "";
  if (whereabouts.waits()) return "waits for the others: " + whereabouts.name;
  return "in " + whereabouts.name + "() of " + plan.place_of(whereabouts.section);
}

// So long a worker may stand still before it looks as if it hung: half the time after which somebody ends the attempt.
double suspicious_seconds(const LaunchPlan& plan) {
  double least = std::numeric_limits<double>::infinity();
  for (const double seconds : {plan.hang_seconds, plan.timeout_seconds}) {
    if (seconds > 0) least = std::min(least, seconds / 2);
  }
  return least;
}

}  // namespace

bool any_stands_still(const Workers& workers, Clock::time_point awake_since, double seconds) {
  return std::ranges::any_of(workers, [&](const auto& worker) {
    const auto still = worker->standstill(awake_since);
    return still && still->seconds >= seconds;
  });
}

void note_standstills(const Workers& workers, const LaunchPlan& plan, Clock::time_point awake_since) {
  std::vector<const Worker*> asked;
  for (const auto& worker : workers) {
    const auto still = worker->standstill(awake_since);
    if (!still || still->seconds < suspicious_seconds(plan)) continue;
    const bool stopped = still->state == 'T' || still->state == 't';  // cannot answer
    if (!stopped && worker->ask_whereabouts()) asked.push_back(worker.get());
  }
  hear_all(asked);
  for (const auto& worker : workers) {
    auto still = worker->standstill(awake_since);
    if (!still) continue;
    if (const auto whereabouts = worker->whereabouts()) {
      still->doing = describe(*whereabouts, plan);
      still->waits = whereabouts->waits();
    }
    worker->note_standstill(std::move(*still));
  }
}

}  // namespace ddprun
