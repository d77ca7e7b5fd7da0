// SPDX-License-Identifier: MIT
// A checkpoint on disk: <run>/checkpoints/step_00001200/{model.safetensors, training.pt, rank_0.pt ..., manifest.json},
// and ema.safetensors where the run averages its weights.
//
// It is written and read by rank 0 alone, which has what the others know from them: they need not see the folder. Under
// a temporary name each file is fsync'd, then the manifest with size and SHA-256 of each file, then it is renamed, then
// the parent folder fsync'd; only then are old ones pruned. A folder without the temporary name is therefore whole; a
// flipped bit in it is found by the manifest.
#pragma once

#include "checkpoint/tensor_dict.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Everything the run needs to go on as if it had never stopped.
struct Checkpoint {
  int64_t step = 0;
  TensorDict model;               // parameters and buffers by their names in the state dict
  TensorDict average;             // moving averages of the weights by the same names; empty where there are none
  TensorDict optimizer;           // OptimizerState
  std::string progress;           // JSON: epoch, position, metrics so far, early stopping, best: the trainer's own
  std::vector<TensorDict> ranks;  // what only each rank knows, by rank: its generators' states
};

// What a manifest says, without reading the tensors.
struct CheckpointInfo {
  std::filesystem::path path;
  int64_t step = 0;
  int64_t world_size = 1;
  std::string torch;                        // the LibTorch that wrote it: "2.11.0"
  std::shared_ptr<const void> in_use = {};  // lock_for_reading(), of one that was verified
};

// A found flaw in a checkpoint folder, for the report: "model.safetensors: SHA-256 is ..., the manifest says ...".
struct CheckpointFlaw {
  std::filesystem::path path;
  std::string problem;
};

// <run>/checkpoints
std::filesystem::path checkpoints_folder(const std::filesystem::path& run_dir);

// step_00001200, and back; nothing for any other name.
std::string checkpoint_name(int64_t step);
std::optional<int64_t> step_of_name(std::string_view name);

// The steps of the folders with a checkpoint's name, whole or broken, in ascending order.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& run_dir);

// Locks of a checkpoint's folder, for as long as the result lives: who reads it shares it, and the run that goes on
// saving does not remove what is being read. The first waits for a removal under way; the second is null where somebody
// reads. On a file system that knows no locks, neither keeps anything from anybody.
std::shared_ptr<const void> lock_for_reading(const std::filesystem::path& folder);
std::shared_ptr<const void> lock_for_removal(const std::filesystem::path& folder);

// Size and SHA-256 of every file against the manifest. Throws UserError naming the file and both values. `path` may be
// a link (checkpoints/best); CheckpointInfo::path is what it leads to, and it is in use while a copy of the result
// lives.
CheckpointInfo verify_checkpoint(const std::filesystem::path& path);

// The newest checkpoint below <run>/checkpoints, of a step up to `last_step`, that verifies. Broken ones are passed
// over and told in `flaws`. Temporary folders of a save that was cut off are ignored. Throws UserError where the folder
// is there and cannot be read.
std::optional<CheckpointInfo> newest_checkpoint(const std::filesystem::path& run_dir,
                                                std::vector<CheckpointFlaw>& flaws,
                                                int64_t last_step = std::numeric_limits<int64_t>::max());

// The manifest alone, for a checkpoint that was verified before. Throws UserError where there is none.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

// The weights to predict with, of a verified checkpoint: the moving averages where it has them, the weights as they
// stand elsewhere; and the buffers.
TensorDict inference_weights(const CheckpointInfo& info);

// Reads a verified checkpoint.
Checkpoint read_checkpoint(const CheckpointInfo& info);

}  // namespace ddprun
