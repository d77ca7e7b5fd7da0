// SPDX-License-Identifier: MIT
#include "step_times.h"

#include "terminal_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ddprun::console {
namespace {

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

std::string step_time(double seconds) {
  if (seconds >= 1) return duration(seconds);
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", 1e3 * seconds);
  return text;
}

}  // namespace

// A row has the means of the steps since the previous one: few at the end of an epoch, many in its middle.
void StepTimes::add(const MetricRow& row) {
  const auto steps = static_cast<double>(std::max<int64_t>(1, row.step - step_));
  step_ = row.step;
  steps_ += steps;
  for (const auto& [name, value] : row.values) {
    sums_[name] += steps * value;
    if (name == "slowest_rank") slowest_in_[std::llround(value)] += steps;
  }
}

double StepTimes::mean_of(const std::string& name) const {
  const auto found = sums_.find(name);
  return found == sums_.end() ? 0 : found->second / steps_;
}

std::string StepTimes::phases() const {
  const double step = steps_ > 0 ? mean_of("step_seconds") : 0;
  if (!(step > 0)) return "";
  std::string text;
  const auto add = [&](const char* name, const char* column) {
    const double share = mean_of(column) / step;
    if (share >= 0.005) text += (text.empty() ? "" : ", ") + std::string(name) + " " + percent(share);
  };
  add("data", "data_seconds");
  add("forward", "forward_seconds");
  add("backward", "backward_seconds");
  add("waiting for others", "wait_seconds");
  add("optimizer", "optimizer_seconds");
  add("CUDA graph", "graph_seconds");
  add("logging", "logging_seconds");
  add("other", "other_seconds");
  return step_time(step) + ": " + text;
}

std::string StepTimes::slowest() const {
  constexpr double kMostly = 0.75;
  const auto by_steps = [](const auto& one) { return one.second; };
  const auto rank = std::ranges::max_element(slowest_in_, {}, by_steps);
  if (rank == slowest_in_.end() || rank->second < kMostly * steps_) return "";
  const double own = mean_of("step_seconds") - mean_of("wait_seconds") - mean_of("other_seconds");
  const double above = mean_of("slowest_rank_seconds") / own - 1;
  if (!(above >= 0.01)) return "";
  return "rank " + std::to_string(rank->first) + " in " + percent(rank->second / steps_) + " of the steps, " +
         percent(above) + " above the mean";
}

}  // namespace ddprun::console
