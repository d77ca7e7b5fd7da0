// SPDX-License-Identifier: MIT
// The metrics that an experiment follows: for early stopping, the best checkpoint and the plateau schedule.
#pragma once

#include "config/experiment.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct Monitor {
  std::string key;     // "early_stopping.monitor"
  std::string metric;  // "val/accuracy"
  Origin origin;       // the metric, or the section whose default it is
};

// Returns whether the experiment chooses the metric that this section follows.
bool is_chosen(const Experiment& experiment, const std::string& section);

// Returns the metrics without which the experiment cannot do what it asks for. The default of checkpoint.monitor is not
// one of them: if it is not measured, the loss takes its place.
std::vector<Monitor> monitors_of(const Experiment& experiment);

// What an evaluation is judged by. NaN stands for what was not measured.
struct Merit {
  double value = std::numeric_limits<double>::quiet_NaN();  // of checkpoint.monitor
  double loss = std::numeric_limits<double>::quiet_NaN();   // of the same evaluation
};

// Returns whether an evaluation takes the place of the best so far: by its value or, among equal ones, by the lower
// loss. What is equal in both stays the best, and what has no value never is.
bool is_better(const Merit& one, const Merit& best, bool maximize);

// The values of checkpoint.monitor, or of what takes its place, at each evaluation so far: the newest kMost.
struct MetricHistory {
  static constexpr size_t kMost = 1000;

  std::string metric;                              // empty: none yet
  std::vector<std::pair<int64_t, double>> values;  // step and value, by ascending steps; NaN is possible
  int64_t left_out = 0;                            // how many older ones there were

  // Adds an evaluation's value. Drops those of this step and later ones, which a resumed run measures again, and all of
  // another metric, which an earlier attempt followed.
  void add(const std::string& name, int64_t step, double value);
};

// What a known name ends with that stands for the metrics of each class, "val/f1/*", before the classes are known.
inline constexpr auto kEachClass = "/*";

// Returns the monitors whose metric is not among `known`, if `known` has any of its split.
std::vector<Monitor> unknown_monitors(const Experiment& experiment, const std::vector<std::string>& known);

// Returns "no metric is called val/acuracy; did you mean val/accuracy? known: val/loss, val/accuracy".
std::string unknown_metric(const std::string& name, const std::vector<std::string>& known);

}  // namespace ddprun
