// SPDX-License-Identifier: MIT
// <run>/digests.jsonl: what the network was after a step, as 64 bits (tensor_digest.h): at each row of metrics and each
// checkpoint. Two runs with the same digests had the same weights, optimizer state and averages; `ddprun replay`
// compares them.
#pragma once

#include "base/run_files.h"

#include <ddprun/files.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

namespace ddprun {

// Used from rank 0's training thread.
class DigestLog {
 public:
  explicit DigestLog(std::filesystem::path run_dir);  // where nothing is written if it is no folder

  // Appends a line, unless the run's folder was removed or moved meanwhile, which ends the run at its next save. A file
  // that cannot be written is named in a warning, and gets no more.
  void add(int64_t step, uint64_t digest);

 private:
  std::filesystem::path run_dir_;
  std::optional<HeldFolder> held_;
  RecordFile file_;
  bool failed_ = false;
  int64_t last_step_ = -1;
};

// Returns the digests by step, those of the last attempt that made each step. Lines that are cut off or damaged are
// left out. Throws UserError if the file is there but cannot be read.
std::map<int64_t, uint64_t> read_digests(const std::filesystem::path& run_dir);

}  // namespace ddprun
