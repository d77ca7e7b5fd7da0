// SPDX-License-Identifier: MIT
#include "comm/shard_tree.h"

#include <algorithm>
#include <bit>

namespace ddprun {
namespace {

// A node is the shards below it. It splits at the largest power of two below their number.
int64_t middle_of(Slice node) {
  return node.begin + static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(node.size() - 1)));
}

// Visits the nodes for which `is_value` holds from left to right, and counts the additions after each.
template <class IsValue>
void plan_adds(Slice node, int64_t present, IsValue&& is_value, AddPlan& plan) {
  if (is_value(node)) return plan.push_back(0);
  const auto half = middle_of(node);
  plan_adds({node.begin, half}, present, is_value, plan);
  if (half >= present) return;
  plan_adds({half, node.end}, present, is_value, plan);
  ++plan.back();
}

// Collects the largest nodes whose present shards all lie in `own`.
void cover(Slice node, int64_t present, Slice own, std::vector<Slice>& found) {
  if (node.begin >= std::min(own.end, present) || node.end <= own.begin) return;
  if (node.begin >= own.begin && std::min(node.end, present) <= own.end) return found.push_back(node);
  const auto half = middle_of(node);
  cover({node.begin, half}, present, own, found);
  cover({half, node.end}, present, own, found);
}

}  // namespace

ShardTree::ShardTree(int64_t shards, int64_t present, int64_t world) : present_(present) {
  std::vector<Slice> sums;
  for (int64_t rank = 0; rank < world; ++rank) {
    std::vector<Slice> nodes;
    cover({0, shards}, present, part_of(shards, rank, world), nodes);
    auto& plan = own_.emplace_back();
    for (const auto& node : nodes) plan_adds(node, present, [](Slice some) { return some.size() == 1; }, plan);
    sums_.push_back(static_cast<int64_t>(nodes.size()));
    sums.insert(sums.end(), nodes.begin(), nodes.end());
  }
  auto next = sums.begin();  // they come in the order in which the tree is visited
  const auto is_sum = [&](Slice node) {
    const bool found = next != sums.end() && next->begin == node.begin && next->end == node.end;
    if (found) ++next;
    return found;
  };
  plan_adds({0, shards}, present, is_sum, all_);
}

}  // namespace ddprun
