// SPDX-License-Identifier: MIT
// Opens the run that a command trains: the one that it names, an unfinished one, or a new one.
#pragma once

#include "agent/checked_experiment.h"
#include "cluster/placement.h"
#include "launch/run_folder.h"

#include <filesystem>

namespace ddprun {

// A run that is ready for its first attempt under this command.
struct PreparedRun {
  RunFolder folder;
  std::filesystem::path checkpoint;  // to start from if the folder has none; may be empty
};

// Opens the run in the folder `resumed` or, if that is empty, the run that the experiment or the engine of this job
// resumes, else a new one. Prepares its data first. Throws UserError.
PreparedRun open_run(const std::filesystem::path& resumed, const CheckedExperiment& checked,
                     const Placement& placement);

// Set by the Python package's ddprun.train: the file in which it is given the run's folder, on every node and rank.
inline constexpr auto kRunFile = "DDPRUN_RUN_FILE";

// Writes the folder there, if somebody asks for it.
void inform_caller(const std::filesystem::path& run_dir);

}  // namespace ddprun
