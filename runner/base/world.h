// SPDX-License-Identifier: MIT
// A worker's place among all workers. `rank` is global, `local_rank` is within the node.
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
