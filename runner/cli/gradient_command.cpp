// SPDX-License-Identifier: MIT
// `ddprun check --gradients EXPERIMENT`: the experiment's own model, data and loss, without training.
#include "cli/checked_experiment.h"
#include "cli/commands.h"
#include "cli/prepare_display.h"
#include "launch/worker_process.h"
#include "plugin_host/plugin_host.h"
#include "train/gradient_check.h"
#include "train/objective.h"

#include <ddprun/error.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <iostream>
#include <numeric>

namespace ddprun {
namespace {

constexpr int64_t kSamples = 8, kNumbers = 20;  // enough to find a wrong formula, few enough to be quick

Batch first_samples(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(std::min(kSamples, dataset.size(Split::kTrain))));
  if (indices.empty()) throw UserError("dataset: it has no training samples");
  std::iota(indices.begin(), indices.end(), 0);
  return dataset.get(Split::kTrain, indices);
}

}  // namespace

int check_gradients(const CheckedExperiment& checked) {
  const auto& experiment = checked.experiment;
  checked.dataset->prepare(prepare_display());
  checked.dataset->start();
  const PluginHost host(plugin_search_path(experiment.plugin_path));
  torch::manual_seed(experiment.seed);
  const auto model = host.make_model(experiment.model);
  model->prepare(checked.dataset->spec());
  Options options(experiment.objective_options, "objective");
  const auto objective = make_objective(experiment.objective, options, Phase::kTraining);
  const auto findings =
      ddprun::check_gradients(*model, *objective, first_samples(*checked.dataset), kNumbers, experiment.seed);
  std::cout << gradient_report(findings);
  return std::ranges::any_of(findings, &GradientFinding::wrong) ? kExitFailed : kExitDone;
}

}  // namespace ddprun
