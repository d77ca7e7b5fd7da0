// SPDX-License-Identifier: MIT
// What `ddprun check` does of a training: a few samples of each split, and one step with some of them on the CPU.
// Nothing is changed by it but what the process has in memory.
#pragma once

#include "config/experiment.h"
#include "plugin_host/plugin_host.h"

#include <ddprun/dataset.h>
#include <ddprun/model.h>
#include <ddprun/testing/gradients.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

struct SanityCheck {
  std::vector<std::string> splits;  // whose samples were looked at
  int64_t step_samples = 0;
  std::vector<std::string> unused;  // parameters that the loss does not depend on
};

// `dataset` is started. Throws PluginMistake or PluginFailure for samples that are not as the dataset promises, shapes
// that do not fit, a group of parameters without any, and a metric that is followed and not measured.
SanityCheck run_sanity_check(const Experiment& experiment, const PluginHost& plugins, const Dataset& dataset);

// `ddprun check --gradients`: a model of an experiment under the SDK's comparison with finite differences.

// check::compare_gradients() of the model's step(); what that throws is told as the plugin's.
std::vector<check::GradientFinding> check_gradients(Model& model, const Objective& objective, Batch batch,
                                                    int64_t numbers, uint64_t seed);

// One line for each parameter, and what it means.
std::string gradient_report(const std::vector<check::GradientFinding>& findings);

}  // namespace ddprun
