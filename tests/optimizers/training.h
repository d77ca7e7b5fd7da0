// SPDX-License-Identifier: MIT
// Parameters and gradients for optimizers to work on: no model, no loss, the gradients are given.
#pragma once

#include "config/yaml_reader.h"
#include "plugin_host/plugin_host.h"

#include <ddprun/optimizer.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace ddprun {

// An optimizer whose options stand in a file, as errors have it: "mine.yaml:2:9: optimizer.groups: ...".
inline std::shared_ptr<Optimizer> from_yaml(const std::string& plugin, const std::string& options) {
  Problems problems;
  const PluginChoice choice{.plugin = plugin,
                            .options = parse_yaml(options, "mine.yaml", problems).value(),
                            .path = "optimizer",
                            .origin = {"mine.yaml", 1, 1}};
  return PluginHost(plugin_search_path({})).make_optimizer(choice);
}

// An optimizer with options, as a parameter of tests.
struct OptimizerCase {
  std::string title, plugin, options;

  std::shared_ptr<Optimizer> made() const { return from_yaml(plugin, options); }
  std::shared_ptr<Optimizer> started(const std::vector<NamedParameter>& parameters) const {
    const auto optimizer = made();
    optimizer->start(parameters);
    return optimizer;
  }
};

inline void PrintTo(const OptimizerCase& item, std::ostream* out) { *out << item.title; }  // GoogleTest's name for this

// Each kind of step that there is.
inline const std::vector<OptimizerCase> kOptimizers{
    {"Sgd", "sgd", "{lr: 0.1}"},
    {"SgdWithMomentum", "sgd", "{lr: 0.1, momentum: 0.9}"},
    {"SgdWithDampening", "sgd", "{lr: 0.1, momentum: 0.9, dampening: 0.5, weight_decay: 0.1}"},
    {"SgdWithNesterov", "sgd", "{lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 0.1}"},
    {"Adam", "adam", "{lr: 0.1}"},
    {"AdamWithAmsgrad", "adam", "{lr: 0.1, weight_decay: 0.1, amsgrad: true}"},
    {"AdamW", "adamw", "{lr: 0.1}"},
    {"Muon", "muon", "{lr: 0.1, others_lr: 0.1, weight_decay: 0.1}"},
    {"MuonThatNormalizes", "muon", "{lr: 0.1, momentum: 0, normalize: true}"},
};

// Of make_parameters(). conv.bias is named twice: the first group has it.
inline const std::string kGroups =
    "lr: 0.05\n"
    "weight_decay: 0.1\n"
    "groups:\n"
    "- {parameters: \"*.bias\", weight_decay: 0}\n"
    "- {parameters: [scale, \"doub?e\", late, conv.bias], lr: 0.01}\n";

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

// Takes the steps from the first to before the last, with gradients that the step's number draws.
template <class AnyOptimizer>
void train(AnyOptimizer& optimizer, const std::vector<NamedParameter>& parameters, int64_t first, int64_t last) {
  for (auto step = first; step < last; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
}

inline void expect_same_bits(const std::vector<NamedParameter>& some, const std::vector<NamedParameter>& others) {
  for (size_t i = 0; i < some.size(); ++i) EXPECT_TRUE(at::equal(some[i].value, others[i].value)) << some[i].name;
}

inline void expect_close(const std::vector<NamedParameter>& some, const std::vector<NamedParameter>& others) {
  for (size_t i = 0; i < some.size(); ++i) {
    const double tolerance = some[i].value.scalar_type() == at::kDouble ? 1e-13 : 2e-6;
    EXPECT_TRUE(torch::allclose(some[i].value, others[i].value, tolerance, tolerance))
        << some[i].name << ": " << (some[i].value - others[i].value).abs().max();
  }
}

}  // namespace ddprun
