// SPDX-License-Identifier: MIT
// Finds what trainer.recompute can compute again: the block that a network repeats, such as the layers of a transformer
// or the blocks of a ResNet, or else parts that the network is cut into.
#pragma once

#include "graph.h"

#include <map>
#include <string>
#include <vector>

namespace ddprun::exported {

// Returns the calls of the modules of one class, without Block::module and Block::buffers: the most numerous one whose
// modules have parts, stand beside others of their class, and do half of all operators at least. If there is no such
// class, parts (parts.h). What changes an input in place is left out. `classes` are those of the modules, by path.
std::vector<Block> find_blocks(const Graph& graph, const std::map<std::string, std::string>& classes);

}  // namespace ddprun::exported
