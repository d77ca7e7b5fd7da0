// SPDX-License-Identifier: MIT
// Runs what `ddprun check` tries of a training: a few samples of each split, and one step with some of them on the CPU.
// It changes nothing outside the process's memory.
#pragma once

#include "config/experiment.h"
#include "plugin_host/plugin_host.h"
#include "sharing/memory_plan.h"

#include <ddprun/dataset.h>
#include <ddprun/model.h>
#include <ddprun/testing/gradients.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct SanityCheck {
  std::vector<std::string> splits;  // splits whose samples were checked
  int64_t step_samples = 0;
  std::vector<std::string> unused;       // parameters that the loss does not depend on
  std::vector<std::string> pretrained;   // what the section `pretrained` does
  std::string left_out;                  // what checkpoint.only_trainable does; empty: it is off
  std::vector<std::string> warnings;     // what doubts_with_data() says
  std::optional<MemoryPlan> memory;      // none if it failed
  std::optional<MemoryPlan> recomputed;  // the same with trainer.recompute=all, if there are blocks and none is chosen
  std::string memory_problem;            // why it failed
};

// Runs the check for a run of so many workers; `dataset` has been started. Throws PluginMistake or PluginFailure for
// samples that break the dataset's promises, shapes that do not fit, an empty parameter group, and a metric that is
// followed but not measured.
SanityCheck run_sanity_check(const Experiment& experiment, const PluginHost& plugins, const Dataset& dataset,
                             int64_t workers);

// Applies check::compare_gradients() to the model's step(), for `ddprun check --gradients`; what that throws is
// reported as the plugin's.
std::vector<check::GradientFinding> check_gradients(Model& model, const Objective& objective, Batch batch,
                                                    int64_t numbers, uint64_t seed);

// Returns one line for each parameter, and what the findings mean.
std::string gradient_report(const std::vector<check::GradientFinding>& findings);

}  // namespace ddprun
