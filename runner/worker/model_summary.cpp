// SPDX-License-Identifier: MIT
#include "worker/model_summary.h"

#include "comm/replicate.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_call.h"
#include "weights/state_guard.h"

#include <ATen/Context.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace ddprun {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;
using Shapes =
    std::unordered_map<const c10::TensorImpl*, std::vector<int64_t>>;  // outputs' shapes, by a parameter of their layer

// Returns whether an operation only changes the form of a parameter on its way into the layer's own operation.
bool changes_form(const Node& node) {
  constexpr auto kForms =
      std::to_array<std::string_view>({"TBackward", "TransposeBackward", "ViewBackward", "PermuteBackward",
                                       "ToCopyBackward", "ExpandBackward", "UnsqueezeBackward", "CloneBackward"});
  const auto name = node.name();
  return std::ranges::any_of(kForms, [&](std::string_view form) { return name.starts_with(form); });
}

const AccumulateGrad* parameter_at(const Node* node) {
  while (node && node->num_outputs() == 1 && changes_form(*node)) node = node->next_edge(0).function.get();
  return dynamic_cast<const AccumulateGrad*>(node);
}

std::vector<int64_t> output_of(const Node& node) {
  std::vector<int64_t> shape;
  if (node.num_inputs() == 0) return shape;  // a node's inputs are the gradients of its operation's outputs
  const auto sizes = node.input_metadata(0).shape_as_dim_vector();
  std::ranges::transform(sizes, std::back_inserter(shape), [](const c10::SymInt& size) { return size.expect_int(); });
  return shape;
}

bool is_view(const Node& node) { return node.name().find("ViewBackward") != std::string::npos; }

// Returns the shape of a node's output. A linear layer makes rows of all symbols of all samples; a view right after it,
// `user`, makes samples of them again.
std::vector<int64_t> shape_of(const Node& node, const Node* user, int64_t batch) {
  auto shape = output_of(node);
  const auto viewed = user && is_view(*user) ? output_of(*user) : shape;
  const bool has_rows = !shape.empty() && shape[0] != batch && !viewed.empty() && viewed[0] == batch;
  return has_rows ? viewed : shape;
}

Shapes shapes_in(const at::Tensor& output, int64_t batch) {
  Shapes shapes;
  std::vector<std::pair<const Node*, const Node*>> open{{output.grad_fn().get(), nullptr}};  // each with its user
  std::unordered_set<const Node*> seen;
  while (!open.empty()) {
    const auto [node, user] = open.back();
    open.pop_back();
    if (!node || !seen.insert(node).second) continue;
    for (const auto& edge : node->next_edges()) {
      const auto* parameter = changes_form(*node) ? nullptr : parameter_at(edge.function.get());
      if (parameter) shapes.emplace(parameter->variable.unsafeGetTensorImpl(), shape_of(*node, user, batch));
      open.emplace_back(edge.function.get(), node);
    }
  }
  return shapes;
}

std::string text_of(const std::vector<int64_t>& shape, int64_t batch) {
  std::string text;
  for (size_t i = !shape.empty() && shape[0] == batch ? 1 : 0; i < shape.size(); ++i)
    text += (text.empty() ? "" : " x ") + std::to_string(shape[i]);
  return text;
}

// Returns Conv2d for "torch::nn::Conv2dImpl", as model authors call it.
std::string kind_of(const torch::nn::Module& module) {
  auto name = module.name();
  name = name.substr(name.rfind(':') + 1);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

// Turns off cuDNN's benchmark mode for a scope: trying kernels is for shapes that come again.
class WithoutBenchmark {
 public:
  WithoutBenchmark() { at::globalContext().setBenchmarkCuDNN(false); }
  ~WithoutBenchmark() { at::globalContext().setBenchmarkCuDNN(before_); }
  WithoutBenchmark(const WithoutBenchmark&) = delete;
  WithoutBenchmark& operator=(const WithoutBenchmark&) = delete;

 private:
  bool before_ = at::globalContext().benchmarkCuDNN();
};

}  // namespace

std::vector<LayerSummary> layers_of(const Model& model, const at::Tensor& output, int64_t batch) {
  const auto shapes = output.defined() ? shapes_in(output, batch) : Shapes();
  std::vector<LayerSummary> layers;
  std::unordered_set<const c10::TensorImpl*> counted;
  for (const auto& module : model.named_modules()) {
    LayerSummary layer{.name = module.key(), .kind = kind_of(*module.value())};
    bool own = false;
    for (const auto& parameter : module.value()->parameters(/*recurse=*/false)) {
      own = true;
      const auto* key = parameter.unsafeGetTensorImpl();
      if (const auto shape = shapes.find(key); shape != shapes.end() && layer.shape.empty())
        layer.shape = text_of(shape->second, batch);
      if (parameter.requires_grad() && counted.insert(key).second) layer.parameters += parameter.numel();
    }
    if (own) layers.push_back(std::move(layer));
  }
  return layers;
}

std::vector<LayerSummary> layers_of(const SummaryParts& parts) {
  constexpr int64_t kSamples = 2;
  try {
    const StateGuard kept(buffers(parts.model), parts.backend);
    const EvalMode mode(parts.model);
    const WithoutBenchmark untried;
    const std::vector<int64_t> indices(kSamples, 0);
    auto some = in_plugin({"dataset", "get"}, [&] { return parts.dataset.get(Split::kTrain, indices); });
    some.replace_tensors([&](const at::Tensor& tensor) { return at::zeros_like(tensor, parts.device); });
    const auto batch = parts.precision.converted(some);
    const auto autocast = parts.precision.autocast();
    const auto output = call_predict(parts.model, batch);
    return layers_of(parts.model, output, kSamples);
  } catch (const std::exception&) {
    return layers_of(parts.model);
  }
}

}  // namespace ddprun
