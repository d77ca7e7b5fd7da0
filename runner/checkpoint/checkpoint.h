// SPDX-License-Identifier: MIT
// A checkpoint on disk: <run>/checkpoints/step_00001200/{model, optimizer, rank_0, ...}.safetensors, state.json and
// manifest.json, and ema.safetensors where the run averages its weights.
//
// Only rank 0 writes and reads it, with data gathered from the others, which need not see the folder; but of a shared
// optimizer each rank that sees the folder writes its own part (checkpoint/shared_file.h). Each file is written and
// fsync'd under a temporary folder name, then the manifest with size and SHA-256 of each file; then the folder is
// renamed, then its parent fsync'd; only then are old checkpoints pruned. A folder without the temporary name is
// therefore complete, and the manifest reveals a flipped bit in it.
#pragma once

#include <ddprun/digest.h>
#include <ddprun/safetensors.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// The parameters that a checkpoint does not hold, with checkpoint.only_trainable: no step trains them, and who
// makes the model as the run did has them (weights/base_weights.h).
struct LeftOutWeights {
  uint64_t digest = 0;  // of the weights that the run began with
  int64_t tensors = 0;  // by name: tied ones count under each of their names
  int64_t bytes = 0;    // that they would take

  bool operator==(const LeftOutWeights&) const = default;
};

// Tensors that other ranks have, by which.
struct TensorElsewhere {
  SafetensorsEntry form;  // without a place
  int64_t rank = 0;
};
using TensorsElsewhere = std::vector<TensorElsewhere>;

// Everything the run needs to continue as if it had never stopped.
struct Checkpoint {
  int64_t step = 0;
  TensorDict model;               // parameters and buffers by their state dict names
  TensorDict average;             // EMA of the weights by the same names; empty if there is none
  TensorDict optimizer;           // OptimizerState
  std::string progress;           // the trainer's JSON: epoch, position, metrics so far, early stopping, best
  std::vector<TensorDict> ranks;  // state that differs by rank: random generators; and on rank 0 that of callbacks
  bool replaces = false;          // takes the place of an earlier one of this step, whose weights are out of date
  std::optional<LeftOutWeights> left_out = {};  // that `model` lacks; nothing: it has all
  // Says, the same on every rank, that all write averages and the optimizer's state together, each what it has; and
  // what the others have.
  bool is_shared = false;
  TensorsElsewhere average_elsewhere = {}, optimizer_elsewhere = {};
};

// What a manifest says, without reading the tensors.
struct CheckpointInfo {
  std::filesystem::path path;
  int64_t step = 0;
  int64_t world_size = 1;
  std::string ddprun;                       // the version that wrote it: "0.2.0"
  std::string torch;                        // the LibTorch that wrote it: "2.11.0"
  std::shared_ptr<const void> in_use = {};  // lock_for_reading(), for one that was verified
  std::optional<LeftOutWeights> left_out = {};
};

// A flaw found in a checkpoint folder: "model.safetensors: SHA-256 is ..., the manifest says ...".
struct CheckpointFlaw {
  std::filesystem::path path;
  std::string problem;
};

// Returns <run>/checkpoints.
std::filesystem::path checkpoints_folder(const std::filesystem::path& run_dir);

// Convert to and from step_00001200; any other name gives nothing.
std::string checkpoint_name(int64_t step);
std::optional<int64_t> step_of_name(std::string_view name);

// Returns the steps of the folders with a checkpoint's name, whole or broken, in ascending order.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& run_dir);

// Lock a checkpoint's folder for as long as the result lives. Readers share it, so a run that keeps saving does not
// remove what is being read. The first waits for a removal in progress, and throws UserError if the lock is not given
// up within a minute; the second returns null if somebody reads. On a file system without locks, neither has any
// effect.
std::shared_ptr<const void> lock_for_reading(const std::filesystem::path& folder);
std::shared_ptr<const void> lock_for_removal(const std::filesystem::path& folder);

// Checks size and SHA-256 of every file against the manifest. Throws UserError naming the file and both values. `path`
// may be a link (checkpoints/best); CheckpointInfo::path is its target, which stays locked while a copy of the result
// lives.
CheckpointInfo verify_checkpoint(const std::filesystem::path& path);

// Throws UserError if a run's checkpoint is a link to another folder, which may be anybody's.
void require_no_link(const std::filesystem::path& folder);

// Returns the newest checkpoint below <run>/checkpoints, of a step up to `last_step`, that verifies. Broken ones are
// skipped and listed in `flaws`. Temporary folders of a save that was cut off are ignored. Throws UserError if the
// folder exists but cannot be read.
std::optional<CheckpointInfo> newest_checkpoint(const std::filesystem::path& run_dir,
                                                std::vector<CheckpointFlaw>& flaws,
                                                int64_t last_step = std::numeric_limits<int64_t>::max());

// Reads only the manifest, for a checkpoint that was verified before. Throws UserError if there is none.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& path);

// Returns the weights to predict with that a verified checkpoint holds: the EMA if it has one, otherwise the weights
// themselves; and the buffers. Who needs those too that it leaves out calls whole_weights()
// (weights/whole_weights.h).
TensorDict inference_weights(const CheckpointInfo& info);

// Reads a verified checkpoint.
Checkpoint read_checkpoint(const CheckpointInfo& info);

// manifest.json lists the contents of a checkpoint. It is written last; a folder without it is not a checkpoint.
inline constexpr auto kManifestFile = "manifest.json";
inline constexpr auto kModelFile = "model.safetensors";
inline constexpr auto kAverageFile = "ema.safetensors";
inline constexpr auto kOptimizerFile = "optimizer.safetensors";
inline constexpr auto kStateFile = "state.json";  // Checkpoint::progress
std::string rank_file(int64_t rank);              // rank_0.safetensors

struct Manifest {
  int64_t step = 0;
  int64_t world_size = 1;
  std::string ddprun;  // the version that wrote it: "0.2.0"
  std::string torch;   // the LibTorch that wrote it: "2.11.0"
  bool best = false;   // the best up to this step; used to restore the link `best`
  std::map<std::string, FileDigest> files;
  std::optional<LeftOutWeights> left_out = {};
};

// Returns "it has 12 bytes, the manifest says 13", or the same for the SHA-256 if the sizes agree.
std::string contradiction(const FileDigest& found, const FileDigest& stated);

// Writes it atomically over an earlier one. It carries its own SHA-256.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// Throws UserError if it is missing, damaged, of a later format, or does not list exactly the files of its world size.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace ddprun
