// SPDX-License-Identifier: MIT
// A checkpoint on disk: <run>/checkpoints/step_00001200/{model.safetensors, training.pt, rank_0.pt ..., manifest.json}.
//
// It is written under a temporary name by all ranks together, each file fsync'd, then the manifest with size and SHA-256 of
// each file, then renamed, then the parent folder fsync'd; only then are old ones pruned. A folder without the temporary name
// is therefore whole; a flipped bit in it is found by the manifest.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// Tensors by name: weights and buffers, an optimizer's state, a generator's state.
using TensorDict = std::map<std::string, at::Tensor>;

// Everything the run needs to go on as if it had never stopped.
struct Checkpoint {
  int64_t step = 0;
  TensorDict model;               // parameters and buffers by their names in the state dict
  TensorDict optimizer;           // OptimizerState
  std::string progress;           // JSON: epoch, position, metrics so far, early stopping, best: the trainer's own
  TensorDict rank;                // what only this rank knows: its generators' states
};

// What a manifest says, without reading the tensors.
struct CheckpointInfo {
  std::filesystem::path path;
  int64_t step = 0;
  int64_t world_size = 1;
};

// A found flaw in a checkpoint folder, for the report: "model.safetensors: SHA-256 is ..., the manifest says ...".
struct CheckpointFlaw {
  std::filesystem::path path;
  std::string problem;
};

// Size and SHA-256 of every file against the manifest. Throws UserError naming the file and both values.
CheckpointInfo verify_checkpoint(const std::filesystem::path& path);

// The newest checkpoint below <run>/checkpoints that verifies. Broken ones are passed over and told in `flaws`. Temporary
// folders of a save that was cut off are ignored.
std::optional<CheckpointInfo> newest_checkpoint(const std::filesystem::path& run_dir, std::vector<CheckpointFlaw>& flaws);

// The manifest alone, for a checkpoint that was verified before. Throws UserError where there is none.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

// Reads a verified checkpoint for one rank; `rank` beyond the world size it was saved at leaves Checkpoint::rank empty.
Checkpoint read_checkpoint(const CheckpointInfo& info, int64_t rank);

// safetensors: weights only, read by Hugging Face's library. Throws UserError for what is not a whole valid file, with its path.
void write_safetensors(const std::filesystem::path& file, const TensorDict& tensors);
TensorDict read_safetensors(const std::filesystem::path& file);

// A dictionary of tensors, and of texts, that torch.load(weights_only=True) opens: {"optimizer": {...}, "progress": "..."}.
struct TrainingFile {
  std::map<std::string, TensorDict> tensors;
  std::map<std::string, std::string> texts;
};
void write_training_file(const std::filesystem::path& file, const TrainingFile& content);
TrainingFile read_training_file(const std::filesystem::path& file);

}  // namespace ddprun
