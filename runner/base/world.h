// SPDX-License-Identifier: MIT
// A worker's place among all workers, and how they share things out. `rank` is global, `local_rank` is within the node.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ddprun {

struct World {
  int64_t rank = 0;
  int64_t size = 1;
  int64_t local_rank = 0;
  int64_t local_size = 1;
  int64_t nodes = 1;
};

// Half-open positions within one epoch's order, or within a list of samples or shards.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Returns the contiguous part of [0, count) that belongs to one of `parts`; the first count % parts get one more.
inline Slice part_of(int64_t count, int64_t part, int64_t parts) {
  const int64_t base = count / parts, more = count % parts;
  const int64_t begin = part * base + std::min(part, more);
  return {begin, begin + base + (part < more ? 1 : 0)};
}

}  // namespace ddprun
