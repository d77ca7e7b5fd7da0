// SPDX-License-Identifier: MIT
// Makes steps of a run again, by this program in a temporary folder, with a record of what they compute
// (step_record.h). The run itself is only read.
#pragma once

#include "checkpoint/checkpoint.h"
#include "config/experiment.h"
#include "features/record/record_section.h"
#include "features/record/step_record.h"
#include "runs/digest_log.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// A run whose steps can be made again.
struct ReplayedRun {
  std::filesystem::path path;
  Experiment experiment;
  std::map<int64_t, RecordedDigest> digests;
};

// Throws UserError if the folder is no run, or its experiment cannot be read.
ReplayedRun replayed_run(const std::filesystem::path& folder);

// Throws UserError unless the run has made this step. In one that has failed, or was cut off, that may be one without a
// row of metrics, and so without a digest.
void require_made(const ReplayedRun& run, int64_t step);

// Returns the environment.json of the attempt that made a step; the newest if the run does not say which that was.
std::filesystem::path environment_of(const ReplayedRun& run, int64_t step);

struct StepsToMake {
  std::optional<CheckpointInfo> checkpoint;  // to begin with; none: the run's beginning
  int64_t last = 0;                          // training ends once it has the digest of this step
  int64_t workers = 1, workers_then = 1;     // then: that made the run's
  RecordConfig record = {};
  bool every_digest = false;  // note the digest of each step, not only of rows

  int64_t first() const { return checkpoint ? checkpoint->step + 1 : 1; }
  std::string from() const { return checkpoint ? checkpoint->path.filename().string() : "the beginning"; }
};

// Returns how to make steps up to `last` again, from the newest good checkpoint before `step`, on as many workers as
// made them, if `workers` is 0. Warns of broken checkpoints. Throws UserError if these steps cannot be made on so many.
StepsToMake steps_to_make(const ReplayedRun& run, int64_t step, int64_t last, int64_t workers);

struct StepsMade {
  std::map<int64_t, RecordedDigest> digests;
  std::map<int64_t, StepRecord> records;
  std::string failure;   // what training said, if it failed
  bool stopped = false;  // a signal has asked this process to end
};

// Trains into `folder`/run, which must not exist, with the variables for LibTorch's libraries of the attempt that made
// the last step. Calls `show` as soon as there are the records, before further steps are made, but not if training ends
// in a recorded step.
using Show = std::function<void(std::map<int64_t, StepRecord> records)>;
StepsMade make_again(const ReplayedRun& run, const StepsToMake& steps, const std::filesystem::path& folder,
                     const Show& show = nullptr);

// How the digests of steps compare that both runs have noted.
struct DigestComparison {
  int64_t compared = 0, last = 0;  // how many they are, and the last of these steps
  int64_t same = 0, other = 0;     // the last before the first that differs, and that; 0: none
};
DigestComparison compare_digests(const std::map<int64_t, RecordedDigest>& first,
                                 const std::map<int64_t, RecordedDigest>& second);

// Returns "the steps cannot be made again: ..." with what training said.
std::string cannot_be_made(const ReplayedRun& run, const StepsMade& made, int64_t step);

}  // namespace ddprun
