// SPDX-License-Identifier: MIT
// Graphs that were captured, and their replay as one piece of work.
#include "pretend_gpu/cudart/capture.h"

#include <algorithm>

namespace pretend {
namespace {

// The nodes' order at a replay. A real graph may take any that keeps parents before children: here that of capture, or,
// where streams are lazy, the one that lets the last ready node go first, so branches that need each other without
// saying so give wrong numbers.
std::vector<size_t> order_of_replay(const Graph& graph) {
  std::vector<size_t> order;
  std::vector<size_t> missing, ready;
  std::vector<std::vector<size_t>> children(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    missing.push_back(graph.nodes[i].parents.size());
    for (const auto parent : graph.nodes[i].parents) children[parent].push_back(i);
    if (schedule() != Schedule::kLazy) order.push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (order.size() < graph.nodes.size()) {
    const auto node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (const auto child : children[node]) {
      if (--missing[child] == 0) ready.push_back(child);
    }
  }
  return order;
}

struct Executable {
  std::shared_ptr<Graph> graph;
  std::vector<size_t> order;
};

Graph& graph_of(cudaGraph_t handle) { return **reinterpret_cast<std::shared_ptr<Graph>*>(handle); }

}  // namespace
}  // namespace pretend

using pretend::Executable;
using pretend::Graph;
using pretend::result;

extern "C" {

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  PRETEND_ENTER();
  const auto& of = *reinterpret_cast<std::shared_ptr<Graph>*>(graph);
  auto* made = new std::shared_ptr<Executable>(new Executable{.graph = of, .order = pretend::order_of_replay(*of)});
  *out = reinterpret_cast<cudaGraphExec_t>(made);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  PRETEND_ENTER();
  const auto there = pretend::graph_of(graph).nodes.size();
  for (size_t i = 0; nodes && i < std::min(*count, there); ++i) nodes[i] = reinterpret_cast<cudaGraphNode_t>(i + 1);
  *count = there;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  PRETEND_ENTER();
  delete reinterpret_cast<std::shared_ptr<Graph>*>(graph);
  return cudaSuccess;
}

// Replays under way continue, as far as is known: cuda_runtime_api.h does not say.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  PRETEND_ENTER();
  delete reinterpret_cast<std::shared_ptr<Executable>*>(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  PRETEND_ENTER();
  auto& on = pretend::stream_of(stream);
  pretend::trace("graph", "cudaGraphLaunch", on.device.index, &on);
  return result(put(on, "graph", [replayed = *reinterpret_cast<std::shared_ptr<Executable>*>(graph), &on] {
    for (const auto i : replayed->order) {
      const auto& node = replayed->graph->nodes[i];
      pretend::trace("replay", node.name, on.device.index, &on);
      node.work();
    }
  }));
}

}  // extern "C"
