// SPDX-License-Identifier: MIT
// Makes a graph of the archive's JSON: finds its operators in LibTorch, and converts what is passed to them.
#pragma once

#include "graph.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace ddprun::exported {

// Returns the one key of an object that stands for a union, its kind. Throws UserError for other values.
std::string kind_of(const nlohmann::json& value);

struct NamedGraph {
  Graph graph;
  std::map<std::string, std::string> modules;  // the classes of the modules in Python, by path: "layer1.0.bn1"
};

// `json` is the value of the key "graph". Throws UserError that names the operator and its line in Python: one that
// LibTorch lacks, or an argument that it does not take. What is missing throws nlohmann::json::exception.
NamedGraph read_graph(const nlohmann::json& json);

}  // namespace ddprun::exported
