// SPDX-License-Identifier: MIT
#pragma once

#include "config/experiment.h"

#include <cstdint>
#include <vector>

namespace ddprun {

// record: which steps are recorded operator by operator (step_record.h); none: no steps.
struct RecordConfig {
  struct Operator {
    int64_t rank = -1, part = 0, number = -1;  // as the record has them; number -1: none
  };
  StepRange steps;
  std::vector<int64_t> without = {};  // samples that the last of them does without
  Operator kept = {};                 // whose results in the last of them are kept
};

}  // namespace ddprun
