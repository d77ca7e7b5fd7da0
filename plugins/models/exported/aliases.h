// SPDX-License-Identifier: MIT
// Which values of a graph may share memory, as the schemas of its operators say.
#pragma once

#include "graph.h"

#include <map>
#include <set>
#include <vector>

namespace ddprun::exported {

// Calls for each slot that a node changes in place. Running statistics are changed, too, though schemas do not say so.
template <class Function>
void for_each_write(const Node& node, const Function& function) {
  if (!node.op) return;
  const auto& formals = node.op->schema().arguments();
  for (size_t i = 0; i < formals.size(); ++i) {
    const auto* alias = formals[i].alias_info();
    const bool is_written = (alias && alias->isWrite()) || formals[i].name().starts_with("running_");
    if (is_written && node.arguments[i].slot >= 0) function(node.arguments[i].slot);
  }
}

// Returns whether a node's results are memory of their own, as far as its schema says.
bool makes_memory(const Node& node);

class Aliases {
 public:
  // Graph::state must be known.
  explicit Aliases(const Graph& graph);

  // Returns one and the same slot for all that may share memory with this one.
  int of(int slot) const;

  // Returns the model's tensors that may share memory with a slot: itself, or what it is a view of.
  const std::set<int>& state_of(int slot) const;

 private:
  void join(int slot, int other);

  std::vector<int> next_;  // slots of the same memory point to each other, at last to one that points to itself
  std::map<int, std::set<int>> state_;  // by of()
};

}  // namespace ddprun::exported
