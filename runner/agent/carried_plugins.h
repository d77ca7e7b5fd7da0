// SPDX-License-Identifier: MIT
// Plugins that --build has made, and that a run takes with it: the folder that they were built in is a cache.
#pragma once

#include "config/experiment.h"

#include <filesystem>
#include <vector>

namespace ddprun {

// Copies those of the files that were built into RUN/plugins, each with its source. Throws UserError where they cannot
// be written.
void carry_built_plugins(const std::vector<std::filesystem::path>& plugin_files, const std::filesystem::path& run_dir);

// In the experiment that a run has recorded, what the run carries takes the place of the cache.
void find_carried_plugins(Experiment& experiment, const std::filesystem::path& run_dir);

}  // namespace ddprun
