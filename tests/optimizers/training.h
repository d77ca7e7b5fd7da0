// SPDX-License-Identifier: MIT
// Parameters and gradients for optimizers to work on: no model, no loss, the gradients are given.
#pragma once

#include "plugin_host/make_choice.h"
#include "plugin_host/plugin_host.h"

#include <ddprun/optimizer.h>

#include <torch/torch.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace ddprun {

using OptionTexts = std::vector<std::pair<std::string, std::string>>;

// An optimizer with options, as a parameter of tests.
struct OptimizerCase {
  std::string title, plugin;
  OptionTexts options;
};

inline void PrintTo(const OptimizerCase& item, std::ostream* out) { *out << item.title; }  // GoogleTest's name for this

inline std::shared_ptr<Optimizer> make_optimizer(const std::string& name, const OptionTexts& options) {
  return PluginHost(plugin_search_path({})).make_optimizer(make_choice(name, options));
}

// Two types and several shapes; "frozen" never gets a gradient, "late" only from step 5 on.
inline std::vector<NamedParameter> make_parameters() {
  const auto single = [](at::IntArrayRef shape) { return torch::randn(shape).requires_grad_(); };
  const auto two = [](at::IntArrayRef shape) { return torch::randn(shape, torch::kDouble).requires_grad_(); };
  torch::manual_seed(1);
  return {{"conv.weight", single({8, 3, 3, 3})},
          {"conv.bias", single({8})},
          {"late", single({5})},
          {"frozen", single({4})},
          {"scale", single({})},
          {"double", two({7, 5})}};
}

inline std::vector<NamedParameter> copies(const std::vector<NamedParameter>& parameters) {
  std::vector<NamedParameter> result;
  for (const auto& [name, value] : parameters) result.push_back({name, value.detach().clone().requires_grad_()});
  return result;
}

inline void set_gradients(const std::vector<NamedParameter>& parameters, int64_t step) {
  torch::manual_seed(100 + step);
  for (const auto& [name, value] : parameters) {
    const auto gradient = torch::randn_like(value.detach());
    if (name == "frozen" || (name == "late" && step < 5)) continue;
    value.mutable_grad() = gradient;
  }
}

}  // namespace ddprun
