// SPDX-License-Identifier: MIT
// Finds the checkpoint of a run that a command works with or resumes from. Nothing is written into the run's folder.
#pragma once

#include "checkpoint/checkpoint.h"

#include <filesystem>
#include <string>

namespace ddprun {

// Returns the verified checkpoint. `word` is "best", "last", the name of one of the run's checkpoints (step_00001200),
// or a checkpoint's path. Throws UserError if there is no such checkpoint or one of its files is broken.
CheckpointInfo choose_checkpoint(const std::filesystem::path& run, const std::string& word);

// What a checkpoint is to its run.
struct Standing {
  std::string place;  // "epoch 3", or "step 150" within an epoch
  bool best = false, last = false;
  bool averaged = false;  // the weights to predict with are an EMA
  std::string
      others;  // how to choose the best or the last, if this is not both: "the best is step_00000010: add `best`"
};

Standing standing_of(const std::filesystem::path& run, const CheckpointInfo& checkpoint);

// Returns "epoch 3, the last; the best is step_00000010: add `best`".
std::string text_of(const Standing& standing);

// Returns the newest good checkpoint of a run, and warns of every broken one; empty if there is none. Throws UserError
// if another LibTorch saved it: a resumed run matches one that never stopped bit for bit, and other kernels round
// differently.
std::filesystem::path checkpoint_to_resume(const std::filesystem::path& run);

// Returns the same for `from`, a checkpoint or a run, as checkpoint.resume names it. Throws UserError if it is neither.
std::filesystem::path named_checkpoint(const std::string& from);

}  // namespace ddprun
