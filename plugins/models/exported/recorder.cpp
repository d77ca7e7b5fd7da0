// SPDX-License-Identifier: MIT
#include "recorder.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <map>
#include <string>

namespace ddprun::exported {
namespace {

using c10::IValue;
using torch::jit::Value;

constexpr auto kSize = "aten::sym_size";

torch::jit::Graph& recorded_graph() { return *torch::jit::tracer::getTracingState()->graph; }

Value* size_of(const Argument& argument, const Graph::Frame& frame) {
  return argument.slot >= 0 ? frame.sizes[static_cast<size_t>(argument.slot)] : nullptr;
}

bool reads_sizes(const Argument& argument, const Graph::Frame& frame) {
  return size_of(argument, frame) ||
         std::ranges::any_of(argument.elements, [&](const Argument& element) { return reads_sizes(element, frame); });
}

// Returns what TorchScript calls it; empty if it has no such thing.
std::string script_name(const Node& node) {
  static const std::map<std::string, std::string> kNames{
      {kSize, "aten::size"},          {"_operator.add", "aten::add"},           {"_operator.sub", "aten::sub"},
      {"_operator.mul", "aten::mul"}, {"_operator.floordiv", "aten::floordiv"}, {"_operator.mod", "aten::remainder"},
      {"_operator.neg", "aten::neg"}, {"_operator.truediv", "aten::div"},       {"torch.sym_float", "aten::Float"},
      {"torch.sym_int", "aten::Int"}, {"torch.sym_max", "prim::max"},           {"torch.sym_min", "prim::min"}};
  const auto found = kNames.find(node.name);
  if (found != kNames.end()) return found->second;
  return node.op ? node.name : "";
}

Value* value_of(const Argument& argument, const IValue& value, const Graph::Frame& frame) {
  auto& graph = recorded_graph();
  if (auto* size = size_of(argument, frame)) {
    if (argument.kind != Argument::Kind::kValueAsTensor) return size;
    return graph.insertNode(graph.create(c10::prim::NumToTensor, {size}))->output()->setType(c10::TensorType::get());
  }
  if (argument.kind == Argument::Kind::kList && reads_sizes(argument, frame)) {
    const auto list = value.toList();
    std::vector<Value*> values;
    for (size_t i = 0; i < argument.elements.size(); ++i)
      values.push_back(value_of(argument.elements[i], list.get(i), frame));
    return graph.insertNode(graph.createList(list.elementType(), values))->output();
  }
  if (value.isTensor() || value.isTensorList()) return torch::jit::tracer::getValueTrace(value);
  return graph.insertConstant(value);
}

}  // namespace

bool is_recording() { return torch::jit::tracer::isTracing(); }

torch::jit::Node* record(const Node& node, const Graph::Frame& frame, const std::vector<IValue>& arguments) {
  const bool is_one = node.name == kSize || std::ranges::any_of(node.arguments, [&](const Argument& argument) {
                        return reads_sizes(argument, frame);
                      });
  const auto name = is_one ? script_name(node) : "";
  if (name.empty()) return nullptr;
  auto* recorded = recorded_graph().create(c10::Symbol::fromQualString(name), /*num_outputs=*/0);
  for (size_t i = 0; i < arguments.size(); ++i) recorded->addInput(value_of(node.arguments[i], arguments[i], frame));
  return recorded_graph().insertNode(recorded);
}

void record_results(torch::jit::Node& recorded, const Node& node, Graph::Frame& frame,
                    const std::vector<IValue>& results) {
  auto& graph = recorded_graph();
  std::vector<Value*> values;
  if (node.unpacks) {
    auto* list = recorded.addOutput()->setType(c10::ListType::ofTensors());
    const auto unpacked = graph.insertNode(graph.createListUnpack(list, results.size()))->outputs();
    values.assign(unpacked.begin(), unpacked.end());
  } else {
    for (const auto& result : results) values.push_back(recorded.addOutput()->setType(result.type()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].isTensor()) {
      values[i]->setType(c10::TensorType::get());  // of any size
      torch::jit::tracer::setValueTrace(results[i], values[i]);
    } else if (i < node.results.size() && node.results[i] >= 0) {
      frame.sizes[static_cast<size_t>(node.results[i])] = values[i];
    }
  }
}

}  // namespace ddprun::exported
