// SPDX-License-Identifier: MIT
// <run>/digests.jsonl: what the network was after a step, as 64 bits (weights/tensor_digest.h): at each row of metrics
// and each checkpoint. Two runs with the same digests had the same weights, optimizer state and averages; `ddprun
// replay` and `ddprun diff` compare them. The first line of an attempt says which it is, on how many workers it ran,
// where, and with which experiment.
#pragma once

#include "base/run_files.h"

#include <ddprun/files.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace ddprun {

// Who makes the steps of an attempt.
struct Makers {
  int64_t workers = 0;
  std::string machine;  // rank 0's: "AMD EPYC 9B14, AVX512, 1 thread, LibTorch 2.11.0"
  // What the log finds in the run's folder itself: experiment_digest() of the run's config.yaml then, and the number in
  // its environment.json; -1: unknown.
  std::string experiment = {};
  int64_t attempt = -1;
};

// Used from rank 0's training thread.
class DigestLog {
 public:
  // Writes nothing where `run_dir` is no folder.
  DigestLog(std::filesystem::path run_dir, Makers makers);

  // Appends a line, unless the run's folder was removed or moved meanwhile, which ends the run at its next save. A file
  // that cannot be written is named in a warning, and gets no more.
  void add(int64_t step, uint64_t digest);

 private:
  std::filesystem::path run_dir_;
  Makers makers_;
  std::optional<HeldFolder> held_;
  RecordFile file_;
  bool failed_ = false;
  int64_t last_step_ = -1;
};

struct RecordedDigest {
  uint64_t digest = 0;
  Makers makers;
};

// Returns the digests by step, those of the last attempt that made each step. Lines that are cut off or damaged are
// left out. Throws UserError if the file is there but cannot be read.
std::map<int64_t, RecordedDigest> read_digests(const std::filesystem::path& run_dir);

// Returns the number of the attempt that an environment.json is of; -1 if it does not say.
int64_t attempt_in(const std::filesystem::path& environment);

// Returns a digest of what a config.yaml says, its comments apart.
std::string experiment_digest(const std::filesystem::path& config);

}  // namespace ddprun
