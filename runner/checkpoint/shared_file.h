// SPDX-License-Identifier: MIT
// A .safetensors file that several ranks write at once, each the tensors that it has: the same file, byte for byte, as
// if one rank had them all. The first rank creates it, all write to it, then the first one reads it and compares.
#pragma once

#include "checkpoint/checkpoint.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

class SharedFile {
 public:
  // `own` of this rank's tensors and those elsewhere are all that the file will hold, on each rank the same ones.
  // `own` outlives it. Throws std::invalid_argument for a tensor that no file can hold.
  SharedFile(std::filesystem::path path, const TensorDict& own, const TensorsElsewhere& elsewhere, int64_t rank);

  bool holds_something() const { return !layout_.entries.empty(); }
  const std::filesystem::path& path() const { return path_; }

  // All three throw UserError with the file and the cause. The first creates the file, without the tensors' elements.
  void create() const;

  // Writes this rank's tensors, if it has any, and forces them to the disk. Returns the SHA-256 of their bytes.
  std::string write_own() const;

  // Reads the whole file, and compares what each rank has written, by rank.
  FileDigest compared(const std::vector<std::string>& written) const;

 private:
  int64_t rank_of(const SafetensorsEntry& entry) const;

  std::filesystem::path path_;
  const TensorDict& own_;
  int64_t rank_;
  std::map<std::string, int64_t> elsewhere_;  // ranks of the others' tensors
  SafetensorsLayout layout_;
};

}  // namespace ddprun
