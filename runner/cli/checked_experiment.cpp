// SPDX-License-Identifier: MIT
#include "cli/checked_experiment.h"

#include "train/objective.h"

#include <ddprun/error.h>

#include <algorithm>

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
  make_objective(experiment.objective, options, Phase::kTraining);
  const auto found = options.problems();
  problems.insert(problems.end(), found.begin(), found.end());
}

std::vector<const PluginChoice*> choices(const Experiment& experiment) {
  std::vector<const PluginChoice*> all{&experiment.model, &experiment.dataset, &experiment.optimizer};
  for (const auto& logger : experiment.loggers) all.push_back(&logger);
  return all;
}

std::vector<std::filesystem::path> files_of(const Experiment& experiment, const PluginHost& host) {
  const auto plugins = host.list();
  std::vector<std::filesystem::path> files;
  for (const auto* choice : choices(experiment)) {
    const auto kind = choice->path.starts_with("loggers") ? "logger" : choice->path;
    const auto info = std::ranges::find_if(
        plugins, [&](const PluginInfo& plugin) { return plugin.kind == kind && plugin.name == choice->plugin; });
    files.push_back(info == plugins.end() ? std::filesystem::path(choice->plugin) : info->file);
  }
  return files;
}

}  // namespace

CheckedExperiment check_experiment(const ComposeInput& input) {
  std::vector<std::string> problems;
  CheckedExperiment checked{.experiment = load_experiment(input, problems)};
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
  checked.plugin_files = files_of(experiment, host);
  return checked;
}

}  // namespace ddprun
