// SPDX-License-Identifier: MIT
// Settings that are written and have no effect, because another one that they belong to is off.
#pragma once

#include "config/experiment.h"

#include <string>
#include <vector>

namespace ddprun {

// Returns a line for each: "mnist.yaml:7:12: schedule.warmup_from: has no effect: there is no warmup".
std::vector<std::string> idle_settings(const Experiment& experiment);

// Returns a line for each section that follows a metric of evaluations which are not made, or are made on the test
// split: the dataset has samples of these splits or not.
std::vector<std::string> idle_monitors(const Experiment& experiment, bool has_val, bool has_test);

}  // namespace ddprun
