// SPDX-License-Identifier: MIT
#pragma once

#include "config/experiment.h"

#include <cstdint>

namespace ddprun {

// profile: a trace of some steps for chrome://tracing or Perfetto, <run>/profile/rank_<rank>.json; no steps: none.
struct ProfileConfig {
  StepRange steps;
  int64_t ranks = 8;  // number of ranks that write one, from rank 0 on
  bool shapes = false, memory = false;
};

}  // namespace ddprun
