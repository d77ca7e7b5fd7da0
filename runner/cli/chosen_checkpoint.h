// SPDX-License-Identifier: MIT
// The checkpoint of a finished or running run that a command is to work with. Nothing is written into the run's folder.
#pragma once

#include "checkpoint/checkpoint.h"

#include <filesystem>
#include <string>

namespace ddprun {

// The run's folder, absolute and without links. Throws UserError where it is none.
std::filesystem::path existing_run(const std::filesystem::path& folder);

// `word` is "best", "last", the name of one of the run's checkpoints (step_00001200), or a checkpoint's path. It is verified:
// UserError where there is no such checkpoint or a file of it is broken.
CheckpointInfo choose_checkpoint(const std::filesystem::path& run, const std::string& word);

}  // namespace ddprun
