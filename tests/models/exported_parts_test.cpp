// SPDX-License-Identifier: MIT
// Where a network that repeats no block is cut, on graphs written by hand.
#include "blocks.h"
#include "graph.h"
#include "parts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::exported {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Makes a graph of one input, in slot 0, step by step.
class Maker {
 public:
  Maker() { graph_.inputs = {slot(1000)}; }

  // Adds an operator of these slots. Returns the slot of its result.
  int add(const std::string& name, const std::string& overload, const std::vector<int>& given, double bytes) {
    Node node{.op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str()), .name = name};
    for (const auto& formal : node.op->schema().arguments()) {
      const auto next = node.arguments.size();
      node.arguments.push_back(next < given.size()
                                   ? Argument{.kind = Argument::Kind::kValue, .slot = given[next]}
                                   : Argument{.constant = formal.default_value().value_or(c10::IValue())});
    }
    node.results = {slot(bytes)};
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().results.front();
  }
  int relu(int x, double bytes) { return add("aten::relu", "", {x}, bytes); }

  Graph of(int output) {
    graph_.outputs = {{.kind = Argument::Kind::kValue, .slot = output}};
    graph_.mark_last_uses();
    return graph_;
  }

 private:
  int slot(double bytes) {
    graph_.bytes.push_back(bytes);
    return static_cast<int>(graph_.slots++);
  }

  Graph graph_;
};

std::vector<std::pair<size_t, size_t>> nodes_of(const std::vector<Block>& blocks) {
  std::vector<std::pair<size_t, size_t>> nodes;
  for (const auto& block : blocks) nodes.emplace_back(block.begin, block.end);
  return nodes;
}

TEST(ExportedParts, ANetworkIsCutWhereLeastIsAlive) {
  Maker maker;
  int x = 0;
  for (const double bytes : {100, 1, 100, 100, 2, 50, 1, 100, 100}) x = maker.relu(x, bytes);
  EXPECT_THAT(nodes_of(parts_of(maker.of(x))), ElementsAre(Pair(0, 2), Pair(2, 5), Pair(5, 7)));
}

TEST(ExportedParts, WhatIsReadLaterIsAliveUntilThen) {
  Maker maker;
  const int first = maker.relu(0, 100);
  int x = maker.relu(first, 1);  // narrow, but for what the last operator reads
  x = maker.relu(x, 100);
  x = maker.add("aten::add", "Tensor", {x, first}, 1);
  x = maker.relu(x, 100);
  EXPECT_THAT(nodes_of(parts_of(maker.of(x))), ElementsAre(Pair(0, 4)));
}

TEST(ExportedParts, AChangeInPlaceIsInThePartThatMakesWhatItChanges) {
  Maker maker;
  int x = maker.relu(0, 100);
  x = maker.relu(x, 1);
  const int seen = maker.add("aten::unsqueeze", "", {x, 0}, 1);
  maker.add("aten::relu_", "", {seen}, 1);
  x = maker.relu(maker.relu(x, 1), 100);
  EXPECT_THAT(nodes_of(parts_of(maker.of(x))), ElementsAre(Pair(0, 4)));  // (0, 2) would take as much
}

TEST(ExportedParts, WhereNothingIsSavedThereAreNone) {
  Maker equal;
  EXPECT_THAT(parts_of(equal.of(equal.relu(equal.relu(0, 10), 10))), IsEmpty());
  Maker unknown;  // sizes
  EXPECT_THAT(parts_of(unknown.of(unknown.relu(unknown.relu(0, 0), 0))), IsEmpty());
  EXPECT_THAT(parts_of(Graph()), IsEmpty());
}

TEST(ExportedParts, OfAnyNetworkTheyFollowEachOtherAndChangeNoInput) {
  size_t found = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t limit) { return static_cast<int>(random() % limit); };
    Maker maker;
    std::vector<int> made{maker.relu(0, 1)};
    for (int i = 0; i < 30; ++i) {
      const int x = made[made.size() - 1 - static_cast<size_t>(below(std::min<size_t>(made.size(), 3)))];
      const double bytes = 1 + below(100);
      switch (below(4)) {
        case 0: made.push_back(maker.add("aten::relu_", "", {x}, bytes)); break;
        case 1: made.push_back(maker.add("aten::t", "", {x}, bytes)); break;
        case 2: made.push_back(maker.add("aten::mul", "Tensor", {x, made.back()}, bytes)); break;
        default: made.push_back(maker.relu(x, bytes));
      }
    }
    const auto graph = maker.of(made.back());
    const auto parts = parts_of(graph);
    EXPECT_EQ(find_blocks(graph, {}).size(), parts.size()) << seed;  // it leaves out those that change an input
    size_t end = 0;
    for (const auto& part : parts) {
      EXPECT_EQ(part.begin, end) << seed;
      EXPECT_GT(part.end, part.begin) << seed;
      end = part.end;
    }
    EXPECT_LE(end, graph.nodes.size());
    found += parts.size();
  }
  EXPECT_GT(found, 200U);
}

}  // namespace
}  // namespace ddprun::exported
