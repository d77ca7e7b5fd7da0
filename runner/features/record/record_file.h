// SPDX-License-Identifier: MIT
// A file of recorded steps that can be compared with another on any machine: what `ddprun replay --out` writes.
#pragma once

#include "features/record/step_record.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace ddprun {

// {"optimizer.lr": "0.01"} below "experiment", {"versions.libtorch": "2.11.0"} below "environment", and "data".
using RunFacts = std::map<std::string, std::map<std::string, std::string>>;

struct RecordedSteps {
  std::string run;  // its folder, where it was made
  RunFacts facts;
  std::map<int64_t, StepRecord> records;  // by step
};

// Replaces the file. Throws UserError if it cannot be written.
void write_recorded_steps(const RecordedSteps& steps, const std::filesystem::path& file);

// Throws UserError if the file cannot be read or is none that `ddprun replay --out` has written.
RecordedSteps read_recorded_steps(const std::filesystem::path& file);

}  // namespace ddprun
