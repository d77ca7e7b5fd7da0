// SPDX-License-Identifier: MIT
#include "sharing/master_weights.h"

#include "plugin_host/plugin_call.h"
#include "weights/layer_decay.h"

#include <ddprun/error.h>
#include <ddprun/parameters.h>

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/types.h>

#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kEntry = "/master_weight";

bool is_narrow(const at::Tensor& weight) {
  return weight.is_floating_point() && at::toOpMathType(weight.scalar_type()) != weight.scalar_type();
}

at::TensorOptions float_options(const at::Tensor& weight) {
  return weight.options().dtype(at::kFloat).requires_grad(false);
}

at::Tensor float_copy(const at::Tensor& weight) { return at::empty_like(weight, float_options(weight)).copy_(weight); }

// Returns a tensor as float_copy() does, but without memory.
at::Tensor without_memory(const at::Tensor& weight) {
  const auto tensor = at::empty({0}, float_options(weight));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(weight.sizes(), weight.strides());
  return tensor;
}

}  // namespace

MasterWeights::MasterWeights(std::shared_ptr<Optimizer> optimizer, const std::vector<NamedParameter>& weights,
                             const Start& start, int64_t numbers_at_once)
    : Optimizer(0), optimizer_(std::move(optimizer)) {
  const torch::NoGradGuard no_gradients;
  std::vector<NamedParameter> masters;
  for (const auto& weight : weights) {
    places_[weight.name] = weights_.size();
    weights_.push_back({weight, is_narrow(weight.value) ? float_copy(weight.value) : weight.value});
    masters.push_back({weight.name, weights_.back().master});
  }
  start(*optimizer_, std::move(masters));
  take_groups();
  turns_ = stepped_at_once(numbers_at_once);
}

void MasterWeights::take_groups() {
  groups() = optimizer_->groups();
  for (auto& group : groups()) {
    for (auto& parameter : group.parameters) parameter.value = weights_[places_.at(parameter.name)].own.value;
  }
}

// Returns which weights take turns: those of whole parts, until their gradients are large; or all at once, if the step
// has no parts, or these are not all weights, each in one of them.
std::vector<std::vector<size_t>> MasterWeights::stepped_at_once(int64_t numbers_at_once) const {
  std::vector<size_t> all(weights_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<std::vector<size_t>> turns;
  std::set<size_t> found;
  int64_t numbers = numbers_at_once;
  for (const auto& part : in_plugin({"optimizer", "step_parts"}, [&] { return optimizer_->step_parts(); })) {
    if (numbers >= numbers_at_once) {
      turns.emplace_back();
      numbers = 0;
    }
    for (const auto& name : part.parameters) {
      const auto known = places_.find(name);
      if (known == places_.end() || !found.insert(known->second).second) return {all};
      turns.back().push_back(known->second);
      numbers += weights_[known->second].own.value.numel();
    }
  }
  if (found.size() < all.size()) return {all};
  return turns;
}

void MasterWeights::keep_only(const std::function<bool(const std::string& parameter)>& is_stepped) {
  for (auto& weight : weights_) {
    weight.is_stepped = is_stepped(weight.own.name);
    if (weight.is_stepped || !weight.has_copy()) continue;
    weight.is_there = false;
    weight.master.set_data(without_memory(weight.own.value));
  }
}

at::Tensor MasterWeights::of(const std::string& parameter) const {
  const auto known = places_.find(parameter);
  if (known == places_.end()) return {};
  const auto& weight = weights_[known->second];
  return weight.has_copy() && weight.is_there ? weight.master : at::Tensor();
}

void MasterWeights::step() {
  step_all([this] { optimizer_->step(); });
}

void MasterWeights::step_unless(const at::Tensor& found_inf) {
  step_all([&] { optimizer_->step_unless(found_inf); });
}

bool MasterWeights::send_lrs() {
  take_lrs();
  return optimizer_->send_lrs();
}

void MasterWeights::take_lrs() {
  for (size_t i = 0; i < groups().size(); ++i) optimizer_->groups()[i].lr = groups()[i].lr;
}

void MasterWeights::step_all(const std::function<void()>& step) {
  take_lrs();
  std::vector<at::Tensor> gradients;
  for (const auto& weight : weights_) gradients.push_back(std::exchange(weight.own.value.mutable_grad(), {}));
  for (const auto& turn : turns_) {
    if (!give_gradients(turn, gradients)) continue;
    step();
    round(turn);
  }
}

// Moves the gradients of some weights to their copies. Returns whether there are any.
bool MasterWeights::give_gradients(const std::vector<size_t>& some, std::vector<at::Tensor>& gradients) {
  bool has_some = false;
  for (const auto place : some) {
    auto& weight = weights_[place];
    const auto gradient = std::exchange(gradients[place], {});
    if (!gradient.defined()) continue;
    has_some = true;
    if (!std::exchange(weight.is_there, true)) weight.master.set_data(float_copy(weight.own.value));
    weight.master.mutable_grad() = gradient.to(weight.master.scalar_type());
  }
  return has_some;
}

// Rounds what the optimizer has stepped, and drops its gradients.
void MasterWeights::round(const std::vector<size_t>& some) {
  std::vector<at::Tensor> weights, masters;
  for (const auto place : some) {
    const auto& weight = weights_[place];
    if (!std::exchange(weight.master.mutable_grad(), {}).defined() || !weight.has_copy()) continue;
    weights.push_back(weight.own.value.detach());
    masters.push_back(weight.master);
  }
  if (!weights.empty()) at::_foreach_copy_(weights, masters);
}

OptimizerState MasterWeights::state() const {
  auto state = optimizer_->state();
  for (const auto& weight : weights_) {
    if (!weight.has_copy() || !weight.is_there) continue;
    const bool is_new = state.emplace(weight.own.name + std::string(kEntry), weight.master).second;
    if (!is_new)
      throw UserError("state() has an entry " + weight.own.name + std::string(kEntry) +
                      ", which is that of a float32 copy with trainer.precision bf16_master; give it another name");
  }
  return state;
}

// A copy that is not in the state begins with the weight's numbers at the next step.
void MasterWeights::load_state(const OptimizerState& state) {
  const torch::NoGradGuard no_gradients;
  auto others = state;
  for (auto& weight : weights_) {
    if (!weight.has_copy()) continue;
    const auto saved = others.extract(weight.own.name + std::string(kEntry));
    weight.is_there = weight.is_stepped && !saved.empty();
    if (!weight.is_there) {
      weight.master.set_data(without_memory(weight.own.value));
      continue;
    }
    if (saved.mapped().sizes() != weight.own.value.sizes())
      throw UserError("the checkpoint's float32 copy of " + weight.own.name + " has another shape than the weight");
    weight.master.set_data(at::empty_like(weight.own.value, float_options(weight.own.value)).copy_(saved.mapped()));
  }
  optimizer_->load_state(others);
}

std::shared_ptr<Optimizer> started_optimizer(std::shared_ptr<Optimizer> optimizer, const Model& model,
                                             const Experiment& experiment) {
  const auto start = [&](Optimizer& some, std::vector<NamedParameter> parameters) {
    start_optimizer(some, std::move(parameters), experiment.pretrained);
  };
  auto weights = trainable_parameters(model);
  if (experiment.trainer.precision == PrecisionMode::kBf16Master)
    return std::make_shared<MasterWeights>(std::move(optimizer), weights, start);
  start(*optimizer, std::move(weights));
  return optimizer;
}

void fit_to_precision(Checkpoint& checkpoint, const Model& model, PrecisionMode precision) {
  const bool has_copies = precision == PrecisionMode::kBf16Master;
  for (const auto& parameter : trainable_parameters(model)) {
    const auto entry = parameter.name + std::string(kEntry);
    const auto saved = checkpoint.model.find(parameter.name);
    if (saved == checkpoint.model.end()) continue;  // loading the weights says so
    if (has_copies && !is_narrow(saved->second)) checkpoint.optimizer.emplace(entry, saved->second.to(at::kFloat));
    if (has_copies) continue;
    if (auto copy = checkpoint.optimizer.extract(entry); !copy.empty()) saved->second = std::move(copy.mapped());
  }
}

}  // namespace ddprun
