// SPDX-License-Identifier: MIT
#include "program.h"

#include "blocks.h"
#include "graph_reader.h"
#include "program_file.h"

#include <ddprun/error.h>

#include <torch/nn/module.h>

#include <utility>

namespace ddprun::exported {
namespace {

InputForm form_of(const std::string& value, const nlohmann::json& graph) {
  const auto& meta = graph.at("tensor_values").at(value);
  InputForm form{.name = value, .type = scalar_type_of(meta.at("dtype").get<int64_t>())};
  for (const auto& size : meta.at("sizes")) {
    const auto fixed = size.find("as_int");
    form.sizes.push_back(fixed == size.end() ? std::nullopt : std::optional(fixed->get<int64_t>()));
  }
  return form;
}

}  // namespace

bool InputForm::takes(const at::Tensor& input) const {
  const bool same_kind = input.scalar_type() == type || (input.is_floating_point() && at::isFloatingType(type));
  if (!same_kind || static_cast<size_t>(input.dim()) != sizes.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] && *sizes[i] != input.size(static_cast<int64_t>(i))) return false;
  }
  return true;
}

std::string InputForm::text() const {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i)
    text += (i == 0 ? "" : ", ") + (sizes[i] ? std::to_string(*sizes[i]) : std::string("*"));
  return text + "] " + c10::toString(type);
}

Program::Program(const nlohmann::json& json, size_t results) {
  const auto& graph = json.at("graph");
  const auto& signature = json.at("signature");
  read_sources(signature.at("input_specs"), graph);
  require_results(signature.at("output_specs"), results);
  auto named = read_graph(graph);
  graph_ = std::move(named.graph);
  modules_ = std::move(named.modules);
  if (graph_.inputs.size() != sources_.size())
    throw UserError("it is damaged: its graph and its signature do not agree; export it again");
}

void Program::read_sources(const nlohmann::json& specs, const nlohmann::json& graph) {
  static const std::map<std::string, std::string> kNames{
      {"parameter", "parameter_name"}, {"buffer", "buffer_name"}, {"tensor_constant", "tensor_constant_name"}};
  for (const auto& spec : specs) {
    const auto kind = kind_of(spec);
    const auto& content = spec.begin().value();
    if (const auto name = kNames.find(kind); name != kNames.end()) {
      sources_.push_back({.name = content.at(name->second).get<std::string>()});
    } else if (kind == "user_input" && content.at("arg").contains("as_tensor")) {
      sources_.push_back({.is_input = true});
      inputs_.push_back(form_of(content.at("arg").at("as_tensor").at("name"), graph));
    } else if (kind == "user_input" || kind == "constant_input") {
      sources_.emplace_back();  // a number or None: it stands in the graph itself
    } else {
      throw UserError("an input of the kind " + kind + " is not understood");
    }
  }
  if (inputs_.empty()) throw UserError("its forward() takes no tensor: expected one at least");
}

void Program::require_results(const nlohmann::json& specs, size_t results) {
  size_t tensors = 0;
  for (const auto& spec : specs) {
    const auto kind = kind_of(spec);
    if (kind != "user_output")
      throw UserError("a result of the kind " + kind +
                      " is not understood: export with torch.export.export alone, without run_decompositions()");
    tensors += spec.begin().value().at("arg").contains("as_tensor") ? 1 : 0;
  }
  if (tensors == results && specs.size() == results) return;
  const auto given = "its forward() gives " + std::to_string(specs.size()) + " results: expected ";
  throw UserError(given + (results == 1 ? "one tensor; --output of tools/export_model chooses one"
                                        : std::to_string(results) + " tensors; it is damaged: export it again"));
}

std::vector<std::string> Program::tensors() const {
  std::vector<std::string> tensors;
  for (const auto& source : sources_)
    if (!source.name.empty()) tensors.push_back(source.name);
  return tensors;
}

std::map<int, std::string> Program::names() const {
  std::map<int, std::string> names;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!sources_[i].name.empty()) names.emplace(graph_.inputs[i], sources_[i].name);
  }
  return names;
}

void Program::find_blocks(const std::function<void(Block& block, const std::vector<std::string>& changed)>& placed) {
  const auto names = this->names();
  for (const auto& [slot, name] : names) graph_.state.insert(slot);
  graph_.blocks = exported::find_blocks(graph_, modules_);
  for (auto& block : graph_.blocks) {
    std::vector<std::string> changed;
    for (const int slot : block.changed) changed.push_back(names.at(slot));
    placed(block, changed);
  }
  std::erase_if(graph_.blocks, [](const Block& block) { return !block.module; });
}

void Program::bind(const std::map<std::string, at::Tensor>& tensors) {
  for (auto& source : sources_) {
    if (source.name.empty()) continue;
    const auto found = tensors.find(source.name);
    if (found == tensors.end())
      throw UserError("it is damaged: the tensor " + source.name + " is missing; export it again");
    source.tensor = &found->second;
  }
}

std::vector<at::Tensor> Program::run(const std::vector<at::Tensor>& given, at::Device device) const {
  std::vector<c10::IValue> values;
  values.reserve(sources_.size());
  size_t next = 0;
  for (const auto& source : sources_) {
    if (source.tensor) {
      values.emplace_back(*source.tensor);
    } else {
      values.push_back(source.is_input ? c10::IValue(given.at(next++)) : c10::IValue());
    }
  }
  std::vector<at::Tensor> tensors;
  for (auto& result : graph_.run(std::move(values), device)) tensors.push_back(std::move(result).toTensor());
  return tensors;
}

}  // namespace ddprun::exported
