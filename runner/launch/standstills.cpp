// SPDX-License-Identifier: MIT
#include "launch/standstills.h"

#include <poll.h>

#include <algorithm>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::milliseconds(500);
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
  auto place = plan.place_of(whereabouts.section);
  place.resize(place.find_last_not_of(": ") + 1);
  return "in " + whereabouts.name + "() of " + place;
}

}  // namespace

void note_standstills(const std::vector<std::unique_ptr<Worker>>& workers, const LaunchPlan& plan,
                      Clock::time_point awake_since) {
  std::vector<const Worker*> asked;
  for (const auto& worker : workers) {
    const auto still = worker->standstill(awake_since);
    const bool seems_to_hang = still && plan.hang_seconds > 0 && still->seconds >= plan.hang_seconds / 2;
    if (seems_to_hang && worker->ask_whereabouts()) asked.push_back(worker.get());
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
