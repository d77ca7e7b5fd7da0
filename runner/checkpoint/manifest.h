// SPDX-License-Identifier: MIT
// manifest.json: what a checkpoint consists of. Written last; a folder without it is no checkpoint.
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
  bool best = false;  // the best of all up to this step; the link `best` can be restored from it
  std::map<std::string, FileDigest> files;
};

// "it has 12 bytes, the manifest says 13", or the same of the SHA-256 where the sizes agree.
std::string contradiction(const FileDigest& found, const FileDigest& stated);

// Puts it in place whole, over an earlier one. It carries its own SHA-256.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// Throws UserError where it is missing, damaged, of a later format, or does not list just the files of its world size.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace ddprun
