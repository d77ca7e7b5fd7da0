// SPDX-License-Identifier: MIT
// Every flaw of a run's checkpoints, where verify_checkpoint() stops at the first. Reads only; a run may be under way
// meanwhile.
#pragma once

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
  std::string name;  // of its folder: step_00001200
  std::filesystem::path path;
  int64_t step = -1;       // of its name or manifest; -1 where neither tells it
  int64_t world_size = 0;  // 0 where the manifest is damaged
  uint64_t bytes = 0;      // of all its files
  std::time_t saved = 0;   // 0 where it cannot be told
  bool removed = false;    // while it was read: the run goes on and keeps only its newest
  std::vector<FileFlaw> flaws;

  bool good() const { return flaws.empty(); }
};

struct RunReport {
  std::vector<CheckpointReport> checkpoints;  // by step
  std::vector<std::string> leftovers;         // folders of a save or a removal that was cut off, or is under way
  std::string last, best;                     // the names that the links hold; empty where there is none
  std::vector<std::string> dangling;          // of the links, those that lead nowhere

  bool good() const;
};

// One checkpoint's folder: its manifest, size and SHA-256 of each file, unknown and missing ones, and whether what is
// in them can be read. Throws UserError only where the folder itself cannot be listed.
CheckpointReport inspect_checkpoint(const std::filesystem::path& folder);

// All of <run>/checkpoints.
RunReport inspect_run(const std::filesystem::path& run_dir);

}  // namespace ddprun
