// SPDX-License-Identifier: MIT
#include "weights/layer_decay.h"

#include "base/log.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/error.h>
#include <ddprun/parameters.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ddprun {
namespace {

// Returns whether the last part of a module's path is a number, perhaps after a word: "0", "encoder_layer_3".
bool is_numbered(const std::string& path) {
  const auto part = path.substr(path.rfind('.') + 1);
  const auto digits = part.find_last_not_of("0123456789");
  return !part.empty() && digits + 1 < part.size() && (digits == part.npos || part[digits] == '_');
}

// Returns "layer1", "layer1.0", "layer1.0.conv1" for layer1.0.conv1.weight.
std::vector<std::string> modules_above(const std::string& parameter) {
  std::vector<std::string> modules;
  for (auto dot = parameter.find('.'); dot != parameter.npos; dot = parameter.find('.', dot + 1))
    modules.push_back(parameter.substr(0, dot));
  return modules;
}

// Returns the modules that hold numbered ones, down to the first number.
std::set<std::string> holders(const std::vector<NamedParameter>& parameters) {
  std::set<std::string> holders;
  for (const auto& parameter : parameters) {
    const auto modules = modules_above(parameter.name);
    const auto numbered = std::ranges::find_if(modules, is_numbered);
    if (numbered != modules.end()) holders.insert(modules.begin(), numbered);
  }
  return holders;
}

// Returns the module that is this parameter's layer; nothing if it belongs to one that holds layers.
std::optional<std::string> module_of(const std::string& parameter, const std::set<std::string>& holders) {
  const auto modules = modules_above(parameter);
  const auto found = std::ranges::find_if(
      modules, [&](const auto& module) { return is_numbered(module) || !holders.contains(module); });
  return found == modules.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::vector<size_t> layers_of(const std::vector<NamedParameter>& parameters) {
  const auto above = holders(parameters);
  std::vector<std::optional<std::string>> modules;
  std::set<std::optional<std::string>> with_matrix;
  for (const auto& parameter : parameters) {
    modules.push_back(module_of(parameter.name, above));
    if (modules.back() && parameter.value.dim() >= 2) with_matrix.insert(modules.back());
  }
  std::map<std::optional<std::string>, size_t> numbers;
  std::vector<size_t> layers;
  for (const auto& module : modules) {
    const auto before = layers.empty() ? 0 : layers.back();
    layers.push_back(with_matrix.contains(module) ? numbers.try_emplace(module, numbers.size()).first->second : before);
  }
  return layers;
}

namespace {

// Returns the scale of each parameter's lr.
std::vector<double> scales_of(const std::vector<NamedParameter>& parameters, double decay) {
  const auto layers = layers_of(parameters);
  const auto last = layers.empty() ? 0 : *std::ranges::max_element(layers);
  std::vector<double> scales;
  for (const auto layer : layers) scales.push_back(std::pow(decay, static_cast<double>(last - layer)));
  return scales;
}

void require_scaled_groups(const Optimizer& optimizer, const std::map<std::string, double>& scales) {
  for (const auto& group : optimizer.groups()) {
    for (const auto& parameter : group.parameters) {
      if (scales.at(parameter.name) == group.lr_scale) continue;
      throw UserError("pretrained.layer_decay: this optimizer has no groups for layers: " + parameter.name +
                      " is in one with parameters of another learning rate. sgd, adam, adamw and muon have them; an "
                      "optimizer of your own makes them in start(), with groups_by_lr_scale()");
    }
  }
}

}  // namespace

void start_optimizer(Optimizer& optimizer, std::vector<NamedParameter> parameters, const PretrainedConfig& config) {
  const auto start = [&] { in_plugin({"optimizer", "start"}, [&] { optimizer.start(parameters); }); };
  if (config.layer_decay == 1) return start();
  std::map<std::string, double> by_name;
  const auto scales = scales_of(parameters, config.layer_decay);
  for (size_t i = 0; i < scales.size(); ++i) by_name[parameters[i].name] = scales[i];
  optimizer.set_lr_scales(by_name);
  start();
  require_scaled_groups(optimizer, by_name);
}

std::string layer_decay_text(const Model& model, const PretrainedConfig& config) {
  const auto parameters = trainable_parameters(model);
  const auto layers = layers_of(parameters);
  const auto first = std::ranges::find(layers, size_t{0}), last = std::ranges::max_element(layers);
  if (last == layers.end()) return "";
  const auto name = [&](auto at) { return parameters[static_cast<size_t>(at - layers.begin())].name; };
  return log::text(*last + 1, " layers, whose lr is that of the next one times ", config.layer_decay, ": from ",
                   std::pow(config.layer_decay, static_cast<double>(*last)), " of it for ", name(first),
                   " to all of it for ", name(last));
}

}  // namespace ddprun
