// SPDX-License-Identifier: MIT
#include "step/held_state.h"

#include "plugin_host/plugin_call.h"

#include <utility>

namespace ddprun {

void NamedTensors::add(std::string name, const at::Tensor& tensor) {
  names.push_back(std::move(name));
  tensors.push_back(tensor);
}

NamedTensors held_weights(const Model& model) {
  NamedTensors weights;
  for (const auto& parameter : model.named_parameters()) weights.add(parameter.key(), parameter.value());
  return weights;
}

NamedTensors held_state(const Optimizer& optimizer, const Ema& ema) {
  NamedTensors state;
  for (const auto& [name, tensor] : in_plugin({"optimizer", "state"}, [&] { return optimizer.state(); }))
    state.add(name + " of the optimizer", tensor);
  for (const auto& [name, tensor] : ema.state()) state.add(name + " of the averages", tensor);
  return state;
}

}  // namespace ddprun
