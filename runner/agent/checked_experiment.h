// SPDX-License-Identifier: MIT
// Checks an experiment for every mistake that can be found without a GPU, data or training.
#pragma once

#include "agent/places.h"
#include "agent/sidecars.h"
#include "config/compose.h"
#include "config/experiment.h"
#include "config/resumed_keys.h"

#include <ddprun/dataset.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

// A plugin that an experiment names.
struct UsedPlugin {
  std::string path;    // "model", "loggers[1]"
  std::string plugin;  // as it is named there
  std::filesystem::path file;
};

struct CheckedExperiment {
  Experiment experiment;                // with absolute paths
  Value as_written;                     // with the paths in plugins' options as the user wrote them
  std::shared_ptr<Dataset> dataset;     // constructed, not yet prepared
  std::vector<UsedPlugin> plugins;      // the loggers last
  std::vector<PlacedSidecar> sidecars;  // of its loggers; require_sidecars() checks them
  Places places;                        // of its keys and plugins, for errors
  double build_seconds = 0;             // for plugins that the clone had not built yet
};

// Composes, reads, and constructs every plugin. Throws UserError with all mistakes in keys and in plugins' options
// together, one a line. `fixed`: what, besides its checkpoints, has fixed keys of a run's recorded experiment that is
// to continue, which overrides may not change then.
CheckedExperiment check_experiment(const ComposeInput& input, const std::set<FixedKey::By>& fixed = {});

// Returns what has fixed keys of the run in this folder: `by`, and its checkpoints if it has some.
std::set<FixedKey::By> fixed_in(const std::filesystem::path& run, std::set<FixedKey::By> by);

std::vector<std::filesystem::path> files_of(const std::vector<UsedPlugin>& plugins);

// Calls Dataset::prepare, once on each node before workers open the data. Shows progress on standard error: a line that
// redraws itself on a terminal, a line every few seconds in a file. Throws UserError with the dataset's place in the
// experiment, whatever the plugin threw.
void prepare_data(const CheckedExperiment& checked);

}  // namespace ddprun
