// SPDX-License-Identifier: MIT
// Where two runs part: their steps are made again side by side, and what they compute is compared.
#pragma once

#include "features/record/steps_again.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace ddprun {

// Two runs, or one run twice, and what their digests say.
struct Runs {
  const ReplayedRun& first;
  const ReplayedRun& second;
  int64_t same = 0;     // the last step after which both had the same bits; 0: both have only begun
  int64_t other = 0;    // the next with a digest in both: the bits are others
  int64_t workers = 0;  // that make their steps again; 0: as many as each run had
};

struct Parting {
  std::string place;  // "step 43, shard 3, operator 62 of 79: ..."; empty if they come to the same bits now
  bool first_as_then = true, second_as_then = true;  // whether each has come to its own digest again
  bool stopped = false;                              // a signal has asked this process to end; the rest says nothing
};

// Trains below `folder`, one run after the other. Throws UserError if the steps cannot be made again.
Parting parting_of(const Runs& runs, const std::filesystem::path& folder);

// Makes steps twice that came to other bits than the run's. Returns why, as far as that shows: the operator whose
// results differ each time, or that they do not.
std::string unsteadiness(const ReplayedRun& run, int64_t same, int64_t other, int64_t workers,
                         const std::filesystem::path& folder);

}  // namespace ddprun
