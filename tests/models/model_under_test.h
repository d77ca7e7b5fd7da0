// SPDX-License-Identifier: MIT
// Models as the runner makes them: from their plugins.
#pragma once

#include "plugin_host/make_choice.h"
#include "plugin_host/plugin_host.h"
#include "support/error_of.h"

#include <ddprun/model.h>

#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

using OptionTexts = std::vector<std::pair<std::string, std::string>>;

inline const DataSpec kMnist{.sample_shape = {1, 28, 28}, .classes = 10};
inline const DataSpec kCifar10{.sample_shape = {3, 32, 32}, .classes = 10};
inline const DataSpec kImageNet{.sample_shape = {3, 224, 224}, .classes = 1000};
inline const DataSpec kColour{.sample_shape = {3, 33, 20}, .classes = 7};

// Never to be asked for anything: the model has a loss of its own.
class NoObjective final : public Objective {
 public:
  at::Tensor loss(const at::Tensor&, const at::Tensor&) const override { throw std::logic_error("it was asked"); }
};

inline std::shared_ptr<Model> unprepared(const std::string& name, const OptionTexts& options = {}) {
  return PluginHost(plugin_search_path({})).make_model(make_choice(name, options));
}

inline std::shared_ptr<Model> prepared(const std::string& name, const DataSpec& data, const OptionTexts& options = {}) {
  torch::manual_seed(3);
  auto model = unprepared(name, options);
  model->prepare(data);
  return model;
}

inline int64_t numbers_in(const Model& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

// Why a model cannot be made, or not for this data; empty where it can.
inline std::string error_of_preparing(const std::string& name, const DataSpec& data, const OptionTexts& options = {}) {
  return error_of([&] { unprepared(name, options)->prepare(data); });
}

}  // namespace ddprun
