// SPDX-License-Identifier: MIT
#include "parts.h"

#include "aliases.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace ddprun::exported {
namespace {

constexpr size_t kMostCuts = 500;    // places that are tried: those where least is alive
constexpr double kMostParts = 64;    // of the same size
constexpr double kFiner = 0.93;      // the largest part, over the one that was tried before
constexpr double kWorthwhile = 0.8;  // of the memory without parts, at most

// Memory that slots share, from the place before which it is made to the last one before which it is needed.
struct Memory {
  double bytes = 0;
  size_t made = 0, read = 0, changed = 0;
  bool is_kept_anyway = false;  // the network's input, or its own tensors
};

// A place between two nodes.
struct Place {
  size_t node = 0;    // that follows
  double alive = 0;   // bytes that a part which begins here is given
  double before = 0;  // bytes that all nodes before it make
  bool is_possible = true;
};

std::map<int, Memory> memory_of(const Graph& graph, const Aliases& aliases) {
  std::map<int, Memory> memory;
  for (const int input : graph.inputs)
    if (input >= 0) memory[aliases.of(input)].is_kept_anyway = true;
  const auto read = [&](const std::vector<Argument>& arguments, size_t node) {
    for_each_use(arguments, [&](const Argument& use) { memory[aliases.of(use.slot)].read = node; });
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    if (node.skipped) continue;
    read(node.arguments, i);
    for_each_write(node, [&](int slot) {
      if (aliases.state_of(slot).empty()) memory[aliases.of(slot)].changed = i;
    });
    for (const int slot : node.results) {
      if (slot < 0) continue;
      auto& made = memory[aliases.of(slot)];
      if (!made.is_kept_anyway && made.made == 0) made.made = i + 1;
      if (makes_memory(node)) made.bytes += graph.bytes[static_cast<size_t>(slot)];
    }
  }
  read(graph.outputs, graph.nodes.size());
  return memory;
}

// Returns all places, the first before the first node.
std::vector<Place> places_of(const Graph& graph) {
  const Aliases aliases(graph);
  std::vector<Place> places(graph.nodes.size() + 1);
  std::vector<double> made(places.size() + 1);
  for (const auto& [slot, one] : memory_of(graph, aliases)) {
    for (size_t i = one.made; i <= one.read && !one.is_kept_anyway; ++i) places[i].alive += one.bytes;
    for (size_t i = one.made; i <= one.changed && one.changed > 0; ++i) places[i].is_possible = false;
    if (!one.is_kept_anyway) made[one.made] += one.bytes;
  }
  for (size_t i = 0; i < places.size(); ++i) {
    places[i].node = i;
    places[i].before = made[i] + (i > 0 ? places[i - 1].before : 0);
  }
  return places;
}

// Returns the first place, the last, and those between at which the graph may be cut.
std::vector<Place> cuts(const std::vector<Place>& places) {
  std::vector<Place> possible;
  std::copy_if(places.begin() + 1, places.end() - 1, std::back_inserter(possible),
               [](const Place& place) { return place.is_possible; });
  if (possible.size() > kMostCuts) {
    std::ranges::stable_sort(possible, {}, &Place::alive);
    possible.resize(kMostCuts);
    std::ranges::sort(possible, {}, &Place::node);
  }
  possible.insert(possible.begin(), places.front());
  possible.push_back(places.back());
  return possible;
}

// A division of what is before a place: what it takes, and the place before its last part.
struct Division {
  double alive = std::numeric_limits<double>::infinity(), largest = 0;  // between the parts, and the largest of them
  size_t from = 0;

  double bytes() const { return alive + largest; }
  bool operator<(const Division& other) const {
    return std::pair(alive, largest) < std::pair(other.alive, other.largest);
  }
};

// Returns, for each place, the division of which least is alive between the parts, if no part makes more than `most`.
std::vector<Division> divide(const std::vector<Place>& places, double most) {
  std::vector<Division> best(places.size());
  best[0].alive = 0;
  for (size_t end = 1; end < places.size(); ++end) {
    for (size_t begin = end; begin-- > 0 && places[end].before - places[begin].before <= most;) {
      const Division division{.alive = best[begin].alive + (begin > 0 ? places[begin].alive : 0),
                              .largest = std::max(best[begin].largest, places[end].before - places[begin].before),
                              .from = begin};
      best[end] = std::min(best[end], division);
    }
  }
  return best;
}

}  // namespace

std::vector<Block> parts_of(const Graph& graph) {
  if (graph.nodes.empty()) return {};
  const auto places = cuts(places_of(graph));
  const double all = places.back().before;
  std::vector<Division> best(places.size());
  for (double most = all; most > all / kMostParts; most *= kFiner) {
    auto divisions = divide(places, most);
    if (divisions.back().bytes() < best.back().bytes()) best = std::move(divisions);
  }
  if (all <= 0 || best.back().bytes() > kWorthwhile * all) return {};
  std::vector<Block> blocks;
  for (size_t end = best.back().from; end > 0; end = best[end].from)
    blocks.insert(blocks.begin(), {.begin = places[best[end].from].node, .end = places[end].node});
  return blocks;
}

}  // namespace ddprun::exported
