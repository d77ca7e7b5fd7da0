// SPDX-License-Identifier: MIT
// Checks an experiment for every mistake that can be found without a GPU, data or training.
#pragma once

#include "agent/sidecars.h"
#include "config/compose.h"
#include "config/experiment.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct CheckedExperiment {
  Experiment experiment;                            // with absolute paths
  Value as_written;                                 // with the paths in plugins' options as the user wrote them
  std::shared_ptr<Dataset> dataset;                 // constructed, not yet prepared
  std::vector<std::filesystem::path> plugin_files;  // of all plugins that the experiment names
  std::vector<PlacedSidecar> sidecars;              // of its loggers; require_sidecars() checks them
};

// Composes, reads, and constructs every plugin. Throws UserError with all mistakes in keys and in plugins' options
// together, one a line.
CheckedExperiment check_experiment(const ComposeInput& input);

// Returns where the experiment names its plugins, its objective and the metrics that it follows, for errors that come
// out of their hooks: {"model": "mnist.yaml:3:10: model: plugin lenet"}; and where it has each of its keys.
std::map<std::string, std::string> plugin_places(const Experiment& experiment);

// Returns the message with the place of the key that it begins with, "mnist.yaml:7:12: launch.workers: ..."; as it is
// if it begins with none that the experiment has.
std::string located(const std::string& message, const Experiment& experiment);

// Rethrows the exception being handled: as a UserError with its place in the experiment if it is a plugin's, or one
// whose text begins with a key; any other as it is.
[[noreturn]] void rethrow_located(const Experiment& experiment);

// Calls what works with a checked experiment, so that its errors say where the mistake is.
template <class Call>
decltype(auto) with_places(const Experiment& experiment, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    rethrow_located(experiment);
  }
}

// Calls Dataset::prepare, once on each node before workers open the data. Shows progress on standard error: a line that
// redraws itself on a terminal, a line every few seconds in a file. Throws UserError with the dataset's place in the
// experiment, whatever the plugin threw.
void prepare_data(const CheckedExperiment& checked);

// Returns the plugins that an experiment names, the loggers last; CheckedExperiment::plugin_files has their files.
std::vector<const PluginChoice*> plugin_choices(const Experiment& experiment);

}  // namespace ddprun
