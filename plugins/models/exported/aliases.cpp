// SPDX-License-Identifier: MIT
#include "aliases.h"

#include <algorithm>
#include <numeric>

namespace ddprun::exported {
namespace {

bool is_shared(const c10::Argument& formal) { return formal.alias_info() != nullptr; }

}  // namespace

bool makes_memory(const Node& node) {
  return !node.skipped && (!node.op || std::ranges::none_of(node.op->schema().returns(), is_shared));
}

// What a block of control flow returns may be what it was given.
Aliases::Aliases(const Graph& graph) : next_(graph.slots) {
  std::iota(next_.begin(), next_.end(), 0);
  for (const auto& node : graph.nodes) {
    if (node.op && makes_memory(node)) continue;
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      if (node.op && !is_shared(node.op->schema().arguments()[i])) continue;
      const std::vector<Argument> shared{node.arguments[i]};
      for_each_use(shared, [&](const Argument& use) {
        for (const int result : node.results)
          if (result >= 0) join(result, use.slot);
      });
    }
  }
  for (const int slot : graph.state) state_[of(slot)].insert(slot);
}

const std::set<int>& Aliases::state_of(int slot) const {
  static const std::set<int> kNone;
  const auto found = state_.find(of(slot));
  return found == state_.end() ? kNone : found->second;
}

int Aliases::of(int slot) const {
  while (next_[static_cast<size_t>(slot)] != slot) slot = next_[static_cast<size_t>(slot)];
  return slot;
}

void Aliases::join(int slot, int other) { next_[static_cast<size_t>(of(slot))] = of(other); }

}  // namespace ddprun::exported
