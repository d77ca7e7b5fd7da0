// SPDX-License-Identifier: MIT
// The checkpoint of a run that a command is to work with, or goes on from. Nothing is written into the run's folder.
#pragma once

#include "checkpoint/checkpoint.h"

#include <filesystem>
#include <string>

namespace ddprun {

// The run's folder, absolute and without links. Throws UserError where it is none, or the run is kept at another node.
std::filesystem::path existing_run(const std::filesystem::path& folder);

// The same, or what this node has of a run that the first one keeps.
std::filesystem::path existing_part(const std::filesystem::path& folder);

// `word` is "best", "last", the name of one of the run's checkpoints (step_00001200), or a checkpoint's path. It is
// verified: UserError where there is no such checkpoint or a file of it is broken.
CheckpointInfo choose_checkpoint(const std::filesystem::path& run, const std::string& word);

// The newest good checkpoint of a run, with a word about every broken one; empty where there is none. Throws UserError
// where it is another LibTorch's: a run goes on as if it had never stopped, in every bit, and other kernels round
// otherwise.
std::filesystem::path checkpoint_to_resume(const std::filesystem::path& run);

// The same of `from`, a checkpoint or a run, as checkpoint.resume names it. Throws UserError where it is neither.
std::filesystem::path named_checkpoint(const std::string& from);

}  // namespace ddprun
