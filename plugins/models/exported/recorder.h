// SPDX-License-Identifier: MIT
// Sizes in TorchScript that is being recorded of a graph (`ddprun export RUN --out m.ts`). LibTorch records operators
// on tensors; a size, and what is computed of it, would be a number there, and the record good for one batch alone.
#pragma once

#include "graph.h"

#include <vector>

namespace torch::jit {
struct Node;
}

namespace ddprun::exported {

// True while LibTorch records what this thread computes.
bool is_recording();

// Records a node that makes or reads sizes; null if it is none, so that LibTorch records it. `arguments` are those that
// it will be called with, and it must be called with LibTorch's recording paused.
torch::jit::Node* record(const Node& node, const Graph::Frame& frame, const std::vector<c10::IValue>& arguments);

// Says what the recorded node has given.
void record_results(torch::jit::Node& recorded, const Node& node, Graph::Frame& frame,
                    const std::vector<c10::IValue>& results);

}  // namespace ddprun::exported
