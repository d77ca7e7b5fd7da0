// SPDX-License-Identifier: MIT
// `ddprun check --gradients EXPERIMENT`: the experiment's own model, data and loss, without training. The dataset is
// started by then.
#include "agent/checked_experiment.h"
#include "cli/commands.h"
#include "data/loader.h"
#include "launch/worker_process.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_host.h"
#include "worker/gradient_check.h"

#include <ddprun/error.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <iostream>
#include <numeric>

namespace ddprun {
namespace {

constexpr int64_t kSamples = 8, kNumbers = 20;  // enough to find a wrong formula, few enough to be quick
constexpr int64_t kTexts = 1;                   // of many symbols, where these are predicted

Batch first_samples(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(std::min(kSamples, dataset.size(Split::kTrain))));
  if (indices.empty()) throw UserError("dataset: it has no training samples");
  std::iota(indices.begin(), indices.end(), 0);
  auto batch = in_plugin({"dataset", "get"}, [&] { return dataset.get(Split::kTrain, indices); });
  const bool are_texts = batch.input.scalar_type() == at::kLong && batch.input.dim() == 2;
  return are_texts ? part_of_batch(batch, {0, std::min(kTexts, batch.size())}) : batch;
}

std::vector<check::GradientFinding> findings_of(const CheckedExperiment& checked) {
  const auto& experiment = checked.experiment;
  const auto& dataset = *checked.dataset;
  const PluginHost host(plugin_search_path(experiment.plugin_path));
  torch::manual_seed(experiment.seed);
  const auto model = host.make_model(experiment.model);
  const auto spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); });
  in_plugin({"model", "prepare"}, [&] { model->prepare(spec); });
  const auto objective = watched_objective(experiment, *model, spec, Phase::kTraining);
  return ddprun::check_gradients(*model, *objective, first_samples(dataset), kNumbers, experiment.seed);
}

}  // namespace

int check_gradients(const CheckedExperiment& checked) try {
  const auto findings = findings_of(checked);
  std::cout << gradient_report(findings);
  return std::ranges::any_of(findings, &check::GradientFinding::wrong) ? kExitFailed : kExitDone;
} catch (const FromPlugin& error) {
  throw located(error, checked.experiment);
}

}  // namespace ddprun
