// SPDX-License-Identifier: MIT
// Plugins that --build has made. A run carries them along, since the folder that they were built in is a cache.
#pragma once

#include "config/experiment.h"

#include <filesystem>
#include <vector>

namespace ddprun {

// Copies those of the files that were built into RUN/plugins, each with its source. Throws UserError if they cannot be
// written.
void carry_built_plugins(const std::vector<std::filesystem::path>& plugin_files, const std::filesystem::path& run_dir);

// Returns the experiment that a run has recorded, with the plugins that it carries. Throws UserError for any mistake in
// it.
Experiment recorded_experiment(const std::filesystem::path& run_dir);

// Replaces paths in the cache by those that the run carries, in the experiment that it has recorded.
void find_carried_plugins(Experiment& experiment, const std::filesystem::path& run_dir);

}  // namespace ddprun
