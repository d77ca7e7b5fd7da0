// SPDX-License-Identifier: MIT
// The metrics that an experiment follows: what stops it early, which checkpoint is best, what lowers the rate.
#pragma once

#include "config/experiment.h"

#include <string>
#include <vector>

namespace ddprun {

struct Monitor {
  std::string key;     // "early_stopping.monitor"
  std::string metric;  // "val/accuracy"
  Origin origin;       // of the metric, or of the section whose default it is
};

// Whether the experiment says which metric this section follows.
bool is_chosen(const Experiment& experiment, const std::string& section);

// Without which the experiment cannot do what it says. The default of checkpoint.monitor is none of them: where it is
// not measured, the loss takes its place.
std::vector<Monitor> monitors_of(const Experiment& experiment);

// Those whose metric is none of `known`, as far as `known` has any of its split.
std::vector<Monitor> unknown_monitors(const Experiment& experiment, const std::vector<std::string>& known);

// "no metric is called val/acuracy; did you mean val/accuracy? known: val/loss, val/accuracy"
std::string unknown_metric(const std::string& name, const std::vector<std::string>& known);

}  // namespace ddprun
