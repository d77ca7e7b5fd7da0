// SPDX-License-Identifier: MIT
// Prints a placement for people and for scripts, as `ddprun env` does.
#pragma once

#include "cluster/placement.h"

#include <cstdint>
#include <string>

namespace ddprun {

// What the page shows in addition to the placement.
struct Installation {
  std::string ddprun, libtorch;  // versions
  int64_t gpus = 0, cores = 0;   // of this node, usable by this process
};

// Returns lines of at most 80 columns; longer values are cut in the middle.
std::string placement_text(const Placement& placement, const Installation& installation);

// Returns one JSON object with everything, uncut.
std::string placement_json(const Placement& placement, const Installation& installation);

}  // namespace ddprun
