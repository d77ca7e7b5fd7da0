// SPDX-License-Identifier: MIT
// Finds every flaw of a run's checkpoints; verify_checkpoint() stops at the first. Only reads, and works while the run
// continues.
#pragma once

#include "checkpoint/checkpoint.h"

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// What is wrong with one file of a checkpoint.
struct FileFlaw {
  std::string file;     // its name in the checkpoint's folder
  std::string kind;     // "torn", "too long", "flipped", "missing", "unknown", "unreadable", "damaged" (the manifest)
  std::string problem;  // for people: "it has 100 bytes, the manifest says 4096"
};

struct CheckpointReport {
  std::string name;  // name of its folder: step_00001200
  std::filesystem::path path;
  int64_t step = -1;                            // from its name or manifest; -1 if neither has it
  int64_t world_size = 0;                       // 0 if the manifest is damaged
  uint64_t bytes = 0;                           // of all its files
  std::time_t saved = 0;                        // 0 if unknown
  std::optional<LeftOutWeights> left_out = {};  // what it leaves out of the model
  bool removed = false;                         // while it was read: the run continues and keeps only its newest
  std::vector<FileFlaw> flaws;

  bool good() const { return flaws.empty(); }
};

struct RunReport {
  std::vector<CheckpointReport> checkpoints;  // by step
  std::vector<std::string> leftovers;         // folders of a save or removal that was cut off or is in progress
  std::string last, best;                     // the targets of the links; empty if there is none
  std::vector<std::string> dangling;          // links that lead nowhere

  bool good() const;
};

// Inspects one checkpoint's folder: its manifest, size and SHA-256 of each file, unknown and missing files, and whether
// their content can be read. Throws UserError only if the folder itself cannot be listed.
CheckpointReport inspect_checkpoint(const std::filesystem::path& folder);

// Inspects all of <run>/checkpoints.
RunReport inspect_run(const std::filesystem::path& run_dir);

}  // namespace ddprun
