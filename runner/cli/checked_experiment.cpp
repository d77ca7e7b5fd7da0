// SPDX-License-Identifier: MIT
#include "cli/checked_experiment.h"

#include "train/objective.h"

#include <ddprun/error.h>

namespace ddprun {
namespace {

// Runs one check; what it finds is added to the others' findings.
template <class Check>
void collect(std::vector<std::string>& problems, Check&& check) {
  try {
    check();
  } catch (const UserError& error) {
    problems.emplace_back(error.what());
  }
}

void check_objective(const Experiment& experiment, std::vector<std::string>& problems) {
  Options options(experiment.objective_options, "objective");
  make_objective(experiment.objective, options);
  const auto found = options.problems();
  problems.insert(problems.end(), found.begin(), found.end());
}

}  // namespace

CheckedExperiment check_experiment(const ComposeInput& input) {
  std::vector<std::string> problems;
  CheckedExperiment checked{.experiment = read_experiment(compose(input), problems)};
  const auto& experiment = checked.experiment;
  const PluginHost host(plugin_search_path(experiment.plugin_path));
  const auto named = [](const PluginChoice& choice) { return !choice.plugin.empty(); };
  if (named(experiment.model)) collect(problems, [&] { host.make_model(experiment.model); });
  if (named(experiment.dataset)) collect(problems, [&] { checked.dataset = host.make_dataset(experiment.dataset); });
  if (named(experiment.optimizer)) collect(problems, [&] { host.make_optimizer(experiment.optimizer); });
  for (const auto& logger : experiment.loggers) {
    if (named(logger)) collect(problems, [&] { host.make_logger(logger); });
  }
  check_objective(experiment, problems);
  if (!problems.empty()) throw_problems(problems);
  return checked;
}

}  // namespace ddprun
