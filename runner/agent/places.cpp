// SPDX-License-Identifier: MIT
#include "agent/places.h"

#include "config/key_path.h"
#include "config/monitors.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"

#include <ddprun/error.h>

namespace ddprun {

std::vector<const PluginChoice*> plugin_choices(const Experiment& experiment) {
  std::vector<const PluginChoice*> all{&experiment.model, &experiment.dataset, &experiment.optimizer};
  if (!is_built_in_objective(experiment.objective.plugin)) all.push_back(&experiment.objective);
  for (const auto& callback : experiment.callbacks) all.push_back(&callback);
  for (const auto& logger : experiment.loggers) all.push_back(&logger);
  return all;
}

Places places_of(const Experiment& experiment) {
  Places places{{"objective", "objective"}};  // which it need not name
  for (const auto& monitor : monitors_of(experiment))
    places[monitor.key] = problem_line(monitor.origin, "", monitor.key);
  for (const auto& [path, value] : all_values(experiment.config)) places[path] = problem_line(value.origin(), "", path);
  for (const auto* choice : plugin_choices(experiment)) places[choice->path] = plugin_place(*choice);
  return places;
}

std::string located(const std::string& message, const Places& places) {
  const auto [key, text] = split_message(message);
  const auto place = places.find(key);
  return place == places.end() ? message : place->second + ": " + text;
}

void rethrow_located(const Places& places) {
  try {
    throw;
  } catch (const FromPlugin& error) {
    throw UserError(places.at(error.section) + ": " + error.problem);
  } catch (const UserError& error) {
    throw UserError(located(error.what(), places));
  }
}

}  // namespace ddprun
