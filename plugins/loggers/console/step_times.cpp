// SPDX-License-Identifier: MIT
#include "step_times.h"

#include "terminal_text.h"

#include <algorithm>
#include <cstdio>
#include <utility>

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

// A table has the means of the steps since the previous one: few at the end of an epoch, many in its middle.
void StepTimes::add(const RankTable& table) {
  const auto steps = static_cast<double>(std::max<int64_t>(1, table.step - step_));
  step_ = table.step;
  if (std::exchange(steps_, steps_ + steps) == 0) {
    sums_ = table;
    for (auto& row : sums_.rows) std::ranges::fill(row, 0);
  }
  for (size_t rank = 0; rank < std::min(table.rows.size(), sums_.rows.size()); ++rank) {
    for (size_t i = 0; i < table.columns.size(); ++i) sums_.rows[rank][i] += steps * table.rows[rank][i];
  }
}

double StepTimes::mean_of(const std::string& column) const {
  const auto at = std::ranges::find(sums_.columns, column) - sums_.columns.begin();
  if (static_cast<size_t>(at) == sums_.columns.size()) return 0;
  double sum = 0;
  for (const auto& row : sums_.rows) sum += row.at(static_cast<size_t>(at));
  return sum / static_cast<double>(sums_.rows.size()) / steps_;
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
  if (sums_.rows.size() < 2) return "";
  std::vector<double> own;
  const auto at = [&](const char* column) { return std::ranges::find(sums_.columns, column) - sums_.columns.begin(); };
  const auto step = at("step_seconds"), wait = at("wait_seconds"), other = at("other_seconds");
  double mean = 0;
  for (const auto& row : sums_.rows) {
    own.push_back(row[static_cast<size_t>(step)] - row[static_cast<size_t>(wait)] - row[static_cast<size_t>(other)]);
    mean += own.back() / static_cast<double>(sums_.rows.size());
  }
  const auto slowest = std::ranges::max_element(own);
  if (!(*slowest / mean >= 1.01)) return "";
  return "rank " + std::to_string(slowest - own.begin()) + ", " + percent(*slowest / mean - 1) + " above the mean";
}

}  // namespace ddprun::console
