// SPDX-License-Identifier: MIT
// Finds the block that a network repeats, for trainer.recompute: the layers of a transformer, the blocks of a ResNet.
#pragma once

#include "graph.h"

#include <map>
#include <string>
#include <vector>

namespace ddprun::exported {

// Returns the calls of the modules of one class, without Block::module: the most numerous one whose modules have parts,
// stand beside others of their class, and do half of all operators at least. None, if there is no such class. Calls
// that change an input in place are left out. `classes` are those of the modules, by path.
std::vector<Block> repeated_blocks(const Graph& graph, const std::map<std::string, std::string>& classes);

}  // namespace ddprun::exported
