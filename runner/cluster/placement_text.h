// SPDX-License-Identifier: MIT
// A placement for people, and for scripts: what `ddprun env` prints.
#pragma once

#include "cluster/placement.h"

#include <cstdint>
#include <string>

namespace ddprun {

// What the page says beside the placement.
struct Installation {
  std::string ddprun, libtorch;  // versions
  int64_t gpus = 0, cores = 0;   // of this node, that this process may use
};

// Lines of at most 80 columns; values that are longer are cut in their middle.
std::string placement_text(const Placement& placement, const Installation& installation);

// One JSON object with all of it, uncut.
std::string placement_json(const Placement& placement, const Installation& installation);

}  // namespace ddprun
