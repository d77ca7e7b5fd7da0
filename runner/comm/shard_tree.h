// SPDX-License-Identifier: MIT
// The order in which the gradients of a global batch's shards are added: a binary tree over the shards that depends on
// their number alone, so that the sum has the same bits however the shards are dealt out to ranks.
//
// A rank adds up whole subtrees of its own shards, and what it sends are these sums. With a power of two of shards and
// of ranks that is a single one.
#pragma once

#include "base/world.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun {

// Instructions for a stack machine: push the i-th value, then as often as adds[i] says replace the two topmost values
// by their sum.
using AddPlan = std::vector<int64_t>;

class ShardTree {
 public:
  // Shards from `present` on have no samples and are left out. Each rank owns contiguous shards, as part_of() deals
  // them.
  ShardTree(int64_t shards, int64_t present, int64_t world);

  int64_t present() const { return present_; }

  const AddPlan& own(int64_t rank) const { return own_[static_cast<size_t>(rank)]; }  // one entry per own shard
  int64_t sums_of(int64_t rank) const { return sums_[static_cast<size_t>(rank)]; }    // subtrees that a rank sends
  const AddPlan& all() const { return all_; }  // one entry per sum, in the order of ranks

 private:
  int64_t present_;
  std::vector<AddPlan> own_;
  std::vector<int64_t> sums_;
  AddPlan all_;
};

}  // namespace ddprun
