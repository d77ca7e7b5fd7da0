// SPDX-License-Identifier: MIT
#include "layers.h"

#include <ddprun/dropout.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ddprun::exported {
namespace {

using c10::IValue;

// aten::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)
enum NormArgument : size_t { kInput, kWeight, kBias, kMean, kVariance, kTraining, kMomentum, kEps, kNormArguments };

// Returns the name of the tensor that an argument is; empty if it is another value.
std::string name_of(const Argument& argument, const std::map<int, std::string>& names) {
  const auto found = names.find(argument.slot);
  return found == names.end() ? "" : found->second;
}

// Returns the module that has all of these under their usual names; nothing if they are not one module's.
std::optional<std::string> module_of(const Node& node, const std::map<int, std::string>& names) {
  const auto mean = name_of(node.arguments[kMean], names);
  constexpr std::string_view kEnd = ".running_mean";
  if (!mean.ends_with(kEnd)) return std::nullopt;
  const auto path = mean.substr(0, mean.size() - kEnd.size());
  const bool one_module = name_of(node.arguments[kVariance], names) == path + ".running_var" &&
                          name_of(node.arguments[kWeight], names) == path + ".weight" &&
                          name_of(node.arguments[kBias], names) == path + ".bias";
  return one_module ? std::optional(path) : std::nullopt;
}

// Returns the nodes that read each slot.
std::vector<std::vector<size_t>> readers_of(const Graph& graph) {
  std::vector<std::vector<size_t>> readers(graph.slots);
  const auto note = [&](const std::vector<Argument>& arguments, size_t node) {
    for_each_use(arguments, [&](const Argument& use) { readers[static_cast<size_t>(use.slot)].push_back(node); });
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) note(graph.nodes[i].arguments, i);
  note(graph.outputs, graph.nodes.size());
  return readers;
}

bool is_relu(const Node& node) { return node.name == "aten::relu" || node.name == "aten::relu_"; }

// aten::max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)
bool is_pooling_by_two(const Node& node) {
  if (node.name != "aten::max_pool2d" || node.arguments.size() != 6) return false;
  const auto all = [&](size_t argument, int64_t number) {
    const auto& value = node.arguments[argument].constant;
    return value.isIntList() && std::ranges::all_of(value.toIntVector(), [&](auto one) { return one == number; });
  };
  const auto& ceil = node.arguments[5].constant;
  return all(1, 2) && all(2, 2) && all(3, 0) && all(4, 1) && ceil.isBool() && !ceil.toBool();
}

class Fusion {
 public:
  explicit Fusion(Graph& graph) : graph_(graph), readers_(readers_of(graph)) {}

  void join(size_t norm, const BatchNorm& layer) {
    const auto second = only_reader(norm);
    if (!second) return;
    const auto third = only_reader(*second);
    const auto& a = graph_.nodes[*second];
    if (third && joins_pooling(a, graph_.nodes[*third])) {
      replace(norm, {*second, *third}, [layer](const at::Tensor& input) { return layer.ptr()->pool_relu(input); });
    } else if (is_relu(a)) {
      replace(norm, {*second}, [layer](const at::Tensor& input) { return layer.ptr()->relu(input); });
    }
  }

 private:
  static bool joins_pooling(const Node& a, const Node& b) {
    return (is_relu(a) && is_pooling_by_two(b)) || (is_pooling_by_two(a) && is_relu(b));
  }

  // Calls `layer` in place of a norm and of the nodes that follow it.
  template <class Layer>
  void replace(size_t norm, const std::vector<size_t>& followers, Layer layer) {
    auto& node = graph_.nodes[norm];
    node.call = [layer](std::vector<IValue>& arguments, at::Device) {
      return std::vector<IValue>{layer(arguments.at(kInput).toTensor())};
    };
    node.results = graph_.nodes[followers.back()].results;
    for (const auto follower : followers) {
      graph_.nodes[follower].skipped = true;
      graph_.nodes[follower].results.clear();
    }
  }

  std::optional<size_t> only_reader(size_t node) const {
    const auto& results = graph_.nodes[node].results;
    if (results.size() != 1 || results[0] < 0) return std::nullopt;
    const auto& readers = readers_[static_cast<size_t>(results[0])];
    if (readers.size() != 1 || readers[0] >= graph_.nodes.size()) return std::nullopt;
    return readers[0];
  }

  Graph& graph_;
  const std::vector<std::vector<size_t>> readers_;
};

}  // namespace

std::vector<NormCall> find_norms(const Graph& graph, const std::map<int, std::string>& names) {
  std::vector<NormCall> calls;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    if (node.name != "aten::batch_norm" || node.arguments.size() <= kNormArguments) continue;
    const auto &training = node.arguments[kTraining].constant, &momentum = node.arguments[kMomentum].constant,
               &eps = node.arguments[kEps].constant;
    const auto path = module_of(node, names);
    if (!path || !training.isBool() || !training.toBool() || !momentum.isDouble() || !eps.isDouble()) continue;
    calls.push_back({.path = *path, .options = {.eps = eps.toDouble(), .momentum = momentum.toDouble()}, .node = i});
  }
  return calls;
}

void call_layer(Graph& graph, const NormCall& call, const BatchNorm& layer, const std::map<int, std::string>& names) {
  graph.nodes[call.node].call = [norm = layer.ptr()](std::vector<IValue>& arguments, at::Device) {
    return std::vector<IValue>{norm->forward(arguments.at(kInput).toTensor())};
  };
  for (auto& node : graph.nodes) {
    const bool counts =
        node.name == "aten::add_" && name_of(node.arguments.at(0), names) == call.path + ".num_batches_tracked";
    node.skipped = node.skipped || counts;
  }
}

void fuse(Graph& graph, const std::map<size_t, BatchNorm>& layers) {
  Fusion fusion(graph);
  for (const auto& [node, layer] : layers) fusion.join(node, layer);
  for (auto& node : graph.nodes) {
    if (node.name != "aten::dropout") continue;
    node.call = [](std::vector<IValue>& arguments, at::Device) {
      const auto& input = arguments.at(0).toTensor();
      return std::vector<IValue>{ddprun::dropout(input, arguments.at(1).toDouble(), arguments.at(2).toBool())};
    };
  }
}

}  // namespace ddprun::exported
