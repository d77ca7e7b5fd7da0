// SPDX-License-Identifier: MIT
// Makes a graph of the archive's JSON: finds its operators in LibTorch, and converts what is passed to them.
#pragma once

#include "graph.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace ddprun::exported {

struct NamedGraph {
  Graph graph;
  std::map<std::string, int> slots;  // of the values' names
};

// `json` is the value of the key "graph". Throws UserError that names the operator and its line in Python: one that
// LibTorch lacks, or an argument that it does not take. What is missing throws nlohmann::json::exception.
NamedGraph read_graph(const nlohmann::json& json);

}  // namespace ddprun::exported
