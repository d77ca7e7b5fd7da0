// SPDX-License-Identifier: MIT
// Cuts a network that repeats no block into parts, for trainer.recompute.
#pragma once

#include "graph.h"

#include <vector>

namespace ddprun::exported {

// Returns parts that take the least memory if backward computes each again when it comes to it: what is alive between
// them, and the largest of them (Chen, Xu, Zhang, Guestrin: "Training Deep Nets with Sublinear Memory Cost", 2016). The
// sizes are those of the samples that the network was exported with. What follows the last part is in none: backward
// begins with it. None, if little would be saved. Block::path and Block::module are left empty.
std::vector<Block> parts_of(const Graph& graph);

}  // namespace ddprun::exported
