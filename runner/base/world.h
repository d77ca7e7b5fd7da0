// SPDX-License-Identifier: MIT
// Where a worker stands among all. `rank` is global, `local_rank` within the node.
#pragma once

#include <cstdint>

namespace ddprun {

struct World {
  int64_t rank = 0;
  int64_t size = 1;
  int64_t local_rank = 0;
  int64_t local_size = 1;
  int64_t nodes = 1;
};

}  // namespace ddprun
