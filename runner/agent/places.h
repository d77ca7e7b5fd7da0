// SPDX-License-Identifier: MIT
// Where an experiment has its keys and plugins, so that errors say where the mistake is.
#pragma once

#include "config/experiment.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// Returns the plugins that an experiment names, the loggers last.
std::vector<const PluginChoice*> plugin_choices(const Experiment& experiment);

// The place of each key, of plugins with their names: {"model": "mnist.yaml:3:10: model: plugin lenet"}.
using Places = std::map<std::string, std::string>;

// Returns the places of the keys that the experiment has, of its plugins, its objective and the metrics that it
// follows.
Places places_of(const Experiment& experiment);

// Returns the message with the place of the key that it begins with, "mnist.yaml:7:12: launch.workers: ..."; as it is
// if it begins with none that the experiment has.
std::string located(const std::string& message, const Places& places);

// Rethrows the exception being handled: as a UserError with its place in the experiment if it is a plugin's, or one
// whose text begins with a key; any other as it is.
[[noreturn]] void rethrow_located(const Places& places);

// Calls what works with a checked experiment, so that its errors say where the mistake is.
template <class Call>
decltype(auto) with_places(const Places& places, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    rethrow_located(places);
  }
}

}  // namespace ddprun
