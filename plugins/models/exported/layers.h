// SPDX-License-Identifier: MIT
// BatchNorms of a program as layers of the SDK, which compute the same bits: the runner knows them, so that their
// statistics can be those of all ranks (trainer.sync_batchnorm) and are exchanged only where somebody reads them.
#pragma once

#include "graph.h"

#include <ddprun/batch_norm.h>

#include <map>
#include <string>
#include <vector>

namespace ddprun::exported {

// A call of a BatchNorm with weight, bias and running statistics, all of one module.
struct NormCall {
  std::string path;  // of the module in Python: "layer1.0.bn1"
  BatchNormOptions options;
  size_t node = 0;
};

// Returns the BatchNorms of a graph for training. `names` are those of its tensors, by slot.
std::vector<NormCall> find_norms(const Graph& graph, const std::map<int, std::string>& names);

// From now on the graph calls `layer`, which counts its batches itself.
void call_layer(Graph& graph, const NormCall& call, const BatchNorm& layer, const std::map<int, std::string>& names);

// Joins such a call with the ReLU, or the ReLU and the 2 x 2 pooling, that follow it, and calls the SDK's dropout in
// place of torch's: faster, and equal within rounding.
void fuse(Graph& graph, const std::map<size_t, BatchNorm>& layers);

}  // namespace ddprun::exported
