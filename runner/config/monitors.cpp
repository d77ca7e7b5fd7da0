// SPDX-License-Identifier: MIT
#include "config/monitors.h"

#include "config/key_path.h"

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

std::string split_of(const std::string& metric) { return metric.substr(0, metric.find('/')); }

bool is_known(const std::string& metric, const std::vector<std::string>& known) {
  return std::ranges::any_of(known, [&](const std::string& name) {
    return name == metric || (name.ends_with(kEachClass) && metric.starts_with(name.substr(0, name.size() - 1)));
  });
}

}  // namespace

bool is_chosen(const Experiment& experiment, const std::string& section) {
  return find_at(experiment.config, {section, "monitor"}) != nullptr;
}

std::vector<Monitor> monitors_of(const Experiment& experiment) {
  std::vector<Monitor> monitors;
  const auto add = [&](const std::string& section, const std::string& metric, bool by_default) {
    if (by_default || is_chosen(experiment, section))
      monitors.push_back({section + ".monitor", metric, place_at(experiment.config, {section, "monitor"})});
  };
  add("checkpoint", experiment.checkpoint.monitor, false);
  if (experiment.early_stopping) add("early_stopping", experiment.early_stopping->monitor, true);
  if (experiment.schedule.kind == ScheduleKind::kPlateau) add("schedule", experiment.schedule.monitor, true);
  return monitors;
}

bool is_better(const Merit& one, const Merit& best, bool maximize) {
  if (std::isnan(one.value) || std::isnan(best.value)) return !std::isnan(one.value);
  if (one.value != best.value) return (one.value > best.value) == maximize;
  return one.loss < best.loss;
}

void MetricHistory::add(const std::string& name, int64_t step, double value) {
  if (metric != name) *this = {.metric = name};
  while (!values.empty() && values.back().first >= step) values.pop_back();
  values.emplace_back(step, value);
  if (values.size() <= kMost) return;
  values.erase(values.begin());
  ++left_out;
}

std::vector<Monitor> unknown_monitors(const Experiment& experiment, const std::vector<std::string>& known) {
  auto monitors = monitors_of(experiment);
  std::erase_if(monitors, [&](const Monitor& monitor) {
    const bool is_measured = std::ranges::find(known, split_of(monitor.metric), split_of) != known.end();
    return !is_measured || is_known(monitor.metric, known);
  });
  return monitors;
}

std::string unknown_metric(const std::string& name, const std::vector<std::string>& known) {
  const auto near = nearest_name(name, known);
  auto text = "no metric is called " + name + "; " + (near.empty() ? "" : "did you mean " + near + "? ") + "known: ";
  constexpr size_t kMostListed = 40;  // those of a thousand classes help nobody
  const auto listed = std::min(known.size(), kMostListed);
  for (size_t i = 0; i < listed; ++i) text += (i == 0 ? "" : ", ") + known[i];
  return text + (listed < known.size() ? " and " + std::to_string(known.size() - listed) + " more" : "");
}

}  // namespace ddprun
