// SPDX-License-Identifier: MIT
// Saves checkpoints of one run and keeps its folder tidy. Called by every rank from its training thread.
#pragma once

#include "checkpoint/checkpoint.h"

#include <filesystem>
#include <functional>
#include <string>

namespace ddprun {

class CheckpointWriter {
 public:
  struct Ranks {
    int64_t rank = 0;
    int64_t world_size = 1;
    // Blocks until all ranks have called it; each passes its own error text (empty: it went well), all get the first
    // non-empty one. So that a full disk on one rank is an error on all, and nobody waits for ever.
    std::function<std::string(const std::string& my_error)> agree;
  };

  // Keeps the `keep` newest and always the best. `run_dir` exists.
  CheckpointWriter(std::filesystem::path run_dir, int64_t keep, Ranks ranks);

  // Writes checkpoints/step_<step>, points `last` to it, and `best` too where `best` is set; then prunes. Returns its path.
  // A checkpoint of the same step that is already there and whole is kept as it is. Throws std::runtime_error on every rank
  // where it fails on any (a full disk, no permission), with the file and the cause; the temporary folder is then removed
  // and the older checkpoints are untouched.
  std::filesystem::path save(const Checkpoint& checkpoint, bool best);

 private:
  std::filesystem::path run_dir_;
  int64_t keep_;
  Ranks ranks_;
};

}  // namespace ddprun
