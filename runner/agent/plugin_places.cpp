// SPDX-License-Identifier: MIT
#include "agent/plugin_places.h"

#include "config/monitors.h"
#include "config/yaml_reader.h"
#include "plugin_host/plugin_host.h"

namespace ddprun {

std::map<std::string, std::string> plugin_places(const Experiment& experiment) {
  std::map<std::string, std::string> places;
  for (const auto* choice : {&experiment.model, &experiment.dataset, &experiment.optimizer})
    places[choice->path] = plugin_place(*choice);
  for (const auto& logger : experiment.loggers) places[logger.path] = plugin_place(logger);
  const auto* objective = experiment.config.find("objective");
  const auto* weights = objective && objective->is_map() ? objective->find("class_weights") : nullptr;
  places["objective"] = problem_line(objective ? objective->origin() : Origin(), "", "objective");
  if (weights) places["objective.class_weights"] = problem_line(weights->origin(), "", "objective.class_weights");
  for (const auto& monitor : monitors_of(experiment))
    places[monitor.key] = problem_line(monitor.origin, "", monitor.key);
  return places;
}

UserError located(const FromPlugin& error, const Experiment& experiment) {
  return UserError(plugin_places(experiment).at(error.section) + ": " + error.problem);
}

}  // namespace ddprun
