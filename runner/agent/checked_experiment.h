// SPDX-License-Identifier: MIT
// An experiment with every mistake found that can be found without a GPU, without data and without training.
#pragma once

#include "config/experiment.h"
#include "plugin_host/plugin_host.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

struct CheckedExperiment {
  Experiment experiment;                            // with absolute paths
  Value as_written;                                 // with the paths in plugins' options as the user wrote them
  std::shared_ptr<Dataset> dataset;                 // constructed, not yet prepared
  std::vector<std::filesystem::path> plugin_files;  // of all plugins that the experiment names
};

// Composes, reads, and constructs every plugin. Throws UserError with all mistakes, those of the keys and those of the
// plugins' options together, one a line.
CheckedExperiment check_experiment(const ComposeInput& input);

}  // namespace ddprun
