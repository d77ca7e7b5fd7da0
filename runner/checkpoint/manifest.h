// SPDX-License-Identifier: MIT
// manifest.json lists the contents of a checkpoint. It is written last; a folder without it is not a checkpoint.
#pragma once

#include "base/durable_file.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace ddprun {

inline constexpr auto kManifestFile = "manifest.json";
inline constexpr auto kModelFile = "model.safetensors";
inline constexpr auto kAverageFile = "ema.safetensors";
inline constexpr auto kTrainingFile = "training.pt";
std::string rank_file(int64_t rank);  // rank_0.pt

struct Manifest {
  int64_t step = 0;
  int64_t world_size = 1;
  std::string torch;  // the LibTorch that wrote it: "2.11.0"
  bool best = false;  // the best up to this step; used to restore the link `best`
  std::map<std::string, FileDigest> files;
};

// Returns "it has 12 bytes, the manifest says 13", or the same for the SHA-256 if the sizes agree.
std::string contradiction(const FileDigest& found, const FileDigest& stated);

// Writes it atomically over an earlier one. It carries its own SHA-256.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// Throws UserError if it is missing, damaged, of a later format, or does not list exactly the files of its world size.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace ddprun
