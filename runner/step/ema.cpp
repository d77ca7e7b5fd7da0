// SPDX-License-Identifier: MIT
#include "step/ema.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

std::vector<at::Tensor> weights_of(const std::vector<NamedParameter>& parameters) {
  std::vector<at::Tensor> weights;
  for (const auto& parameter : parameters) weights.push_back(parameter.value.detach());
  return weights;
}

}  // namespace

Ema::Ema(std::vector<NamedParameter> parameters, double decay, OptimizerShare share, const MasterWeights* masters)
    : share_(std::move(share)),
      masters_(masters),
      all_(std::move(parameters)),
      parameters_(share_.own(all_)),
      decay_(decay) {}

void Ema::follow(std::vector<NamedParameter> parameters) {
  const torch::NoGradGuard no_gradients;
  all_ = std::move(parameters);
  const auto before = std::exchange(parameters_, share_.own(all_));
  if (!has_begun_) return;
  const auto weights = wide_weights();
  std::vector<at::Tensor> averages;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto known = std::ranges::find_if(before, [&](const auto& one) { return one.name == parameters_[i].name; });
    averages.push_back(known == before.end() ? weights[i].clone() : averages_[known - before.begin()]);
  }
  averages_ = std::move(averages);
}

// Returns the weights in the averages' types: the weights themselves, or their float32 copies, if those have them.
std::vector<at::Tensor> Ema::wide_weights() const {
  auto weights = weights_of(parameters_);
  std::vector<at::Tensor> narrow, wide;
  for (size_t i = 0; i < weights.size(); ++i) {
    auto& weight = weights[i];
    const auto master = masters_ ? masters_->of(parameters_[i].name) : at::Tensor();
    if (master.defined()) {
      weight = master;
      continue;
    }
    const auto type = at::toOpMathType(weight.scalar_type());
    if (type == weight.scalar_type()) continue;
    narrow.push_back(weight);
    weight = wide.emplace_back(at::empty_like(weight, weight.options().dtype(type)));
  }
  if (!wide.empty()) at::_foreach_copy_(wide, narrow);
  return weights;
}

// Updates the averages. A skipped step averages them with themselves, which leaves their bits.
void Ema::update(const at::Tensor& found_inf) {
  if (decay_ == 0) return;
  if (!has_begun_) {
    if (found_inf.defined() && found_inf.item<float>() != 0) return;
    has_begun_ = true;
    for (const auto& weight : wide_weights()) averages_.push_back(weight.clone());
    return;
  }
  if (averages_.empty()) return;
  auto now = wide_weights();
  if (found_inf.defined()) {
    now = at::_foreach_mul(now, 1 - found_inf);
    at::_foreach_add_(now, at::_foreach_mul(averages_, found_inf));
  }
  at::_foreach_lerp_(averages_, now, 1 - decay_);
}

void Ema::exchange() {
  const auto all = weights_of(all_), own = weights_of(parameters_);
  if (!kept_.empty()) {
    for (size_t i = 0; i < all.size(); ++i) all[i].copy_(kept_[i]);
    kept_.clear();
    return;
  }
  if (!has_begun_) return;
  for (const auto& weight : all) kept_.push_back(weight.clone());
  for (size_t i = 0; i < own.size(); ++i) own[i].copy_(averages_[i]);
  share_.spread(all_);
}

TensorDict Ema::state() const {
  TensorDict state;
  for (size_t i = 0; i < averages_.size(); ++i) state[parameters_[i].name] = averages_[i];
  return state;
}

void Ema::load_state(const TensorDict& state) {
  averages_.clear();
  has_begun_ = !state.empty() && decay_ != 0;
  if (!has_begun_) return;
  for (const auto& parameter : parameters_) {
    const auto saved = state.find(parameter.name);
    if (saved == state.end() || saved->second.sizes() != parameter.value.sizes()) {
      throw UserError("trainer.ema_decay: the checkpoint's averages do not fit the model: " + parameter.name + " is " +
                      (saved == state.end() ? "missing" : "of another shape"));
    }
    const auto value = parameter.value.detach();
    const auto type = at::toOpMathType(value.scalar_type());
    averages_.push_back(at::empty_like(value, value.options().dtype(type)).copy_(saved->second));
  }
}

}  // namespace ddprun
