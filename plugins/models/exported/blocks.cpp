// SPDX-License-Identifier: MIT
#include "blocks.h"

#include "aliases.h"
#include "parts.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ddprun::exported {
namespace {

std::string parent_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

// Returns the path of the outermost module of `modules` that a node belongs to; empty if none.
std::string owner_of(const Node& node, const std::set<std::string>& modules) {
  std::string owner;
  for (auto path = node.module; !path.empty(); path = parent_of(path))
    if (modules.contains(path)) owner = path;
  return owner;
}

// Returns the paths of modules that have parts, by their class, if another of that class has the same parent.
std::map<std::string, std::set<std::string>> repeated_modules(const std::map<std::string, std::string>& classes) {
  std::map<std::pair<std::string, std::string>, std::set<std::string>> beside;  // by parent and class
  for (const auto& [path, type] : classes) {
    const auto part = classes.lower_bound(path + ".");
    const bool has_parts = part != classes.end() && part->first.starts_with(path + ".");
    if (!path.empty() && has_parts) beside[{parent_of(path), type}].insert(path);
  }
  std::map<std::string, std::set<std::string>> repeated;
  for (const auto& [place, paths] : beside)
    if (paths.size() > 1) repeated[place.second].insert(paths.begin(), paths.end());
  return repeated;
}

// Returns the class that the comment in the header speaks of, as its modules.
std::set<std::string> chosen_modules(const Graph& graph, const std::map<std::string, std::string>& classes) {
  std::set<std::string> chosen;
  for (const auto& [type, modules] : repeated_modules(classes)) {
    const auto covered = std::ranges::count_if(
        graph.nodes, [&modules = modules](const Node& node) { return !owner_of(node, modules).empty(); });
    if (2 * covered >= std::ssize(graph.nodes) && modules.size() > chosen.size()) chosen = modules;
  }
  return chosen;
}

// Returns the calls of modules, the outermost of these paths, in the order of the nodes.
std::vector<Block> calls_of(const Graph& graph, const std::set<std::string>& modules) {
  std::vector<Block> calls;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto owner = owner_of(graph.nodes[i], modules);
    if (owner.empty()) continue;
    if (calls.empty() || calls.back().path != owner || calls.back().end != i)
      calls.push_back({.path = owner, .begin = i});
    calls.back().end = i + 1;
  }
  return calls;
}

// Notes what a block reads and changes. Returns false if it changes an input, other than the model's own tensors.
bool complete(Block& block, const Graph& graph, const Aliases& aliases) {
  std::set<int> made;
  for (size_t i = block.begin; i < block.end; ++i) {
    const auto& node = graph.nodes[i];
    for_each_use(node.arguments, [&](const Argument& use) {
      if (!made.contains(use.slot)) block.inputs.insert(use.slot);
    });
    made.insert(node.results.begin(), node.results.end());
  }
  std::set<int> memory;
  for (const int slot : block.inputs)
    if (!graph.state.contains(slot)) memory.insert(aliases.of(slot));
  bool changes_inputs = false;
  for (size_t i = block.begin; i < block.end; ++i) {
    if (graph.nodes[i].skipped) continue;
    for_each_write(graph.nodes[i], [&](int slot) {
      const auto& state = aliases.state_of(slot);
      block.changed.insert(state.begin(), state.end());
      changes_inputs = changes_inputs || memory.contains(aliases.of(slot));
    });
  }
  return !changes_inputs;
}

std::vector<Block> usable(std::vector<Block> blocks, const Graph& graph) {
  const Aliases aliases(graph);
  std::erase_if(blocks, [&](Block& block) { return !complete(block, graph, aliases); });
  return blocks;
}

}  // namespace

std::vector<Block> find_blocks(const Graph& graph, const std::map<std::string, std::string>& classes) {
  const auto repeated = usable(calls_of(graph, chosen_modules(graph, classes)), graph);
  return repeated.empty() ? usable(parts_of(graph), graph) : repeated;
}

}  // namespace ddprun::exported
