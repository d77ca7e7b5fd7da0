// SPDX-License-Identifier: MIT
#include "train/weight_average.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

namespace ddprun {

WeightAverage::WeightAverage(std::vector<NamedParameter> parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {}

std::vector<at::Tensor> WeightAverage::weights() const {
  std::vector<at::Tensor> weights;
  for (const auto& parameter : parameters_) weights.push_back(parameter.value.detach());
  return weights;
}

void WeightAverage::update(const at::Tensor& overflow) {
  const auto now = weights();
  if (averages_.empty()) {
    if (overflow.defined() && overflow.item<float>() != 0) return;
    for (const auto& weight : now) averages_.push_back(weight.clone());
    return;
  }
  if (!overflow.defined()) {
    at::_foreach_lerp_(averages_, now, 1 - decay_);
    return;
  }
  const auto share = (1 - overflow) * (1 - decay_);
  for (size_t i = 0; i < now.size(); ++i) averages_[i].lerp_(now[i], share.to(now[i].scalar_type()));
}

void WeightAverage::exchange() {
  if (averages_.empty()) return;
  auto now = weights();
  for (size_t i = 0; i < now.size(); ++i) {
    const auto kept = now[i].clone();
    now[i].copy_(averages_[i]);
    averages_[i].copy_(kept);  // in its place, where recorded steps look for it
  }
}

TensorDict WeightAverage::state() const {
  TensorDict state;
  for (size_t i = 0; i < averages_.size(); ++i) state[parameters_[i].name] = averages_[i];
  return state;
}

void WeightAverage::load_state(const TensorDict& state) {
  averages_.clear();
  if (state.empty()) return;
  for (const auto& parameter : parameters_) {
    const auto saved = state.find(parameter.name);
    if (saved == state.end() || saved->second.sizes() != parameter.value.sizes()) {
      throw UserError("trainer.ema_decay: the checkpoint's averages do not fit the model: " + parameter.name + " is " +
                      (saved == state.end() ? "missing" : "of another shape"));
    }
    averages_.push_back(at::empty_like(parameter.value.detach()).copy_(saved->second));
  }
}

}  // namespace ddprun
