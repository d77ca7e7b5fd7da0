// SPDX-License-Identifier: MIT
#include "fused_optimizer.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

namespace ddprun {
namespace {

std::string describe(const at::Tensor& tensor) {
  return tensor.defined() ? std::string(c10::toString(tensor.scalar_type())) + " " + c10::str(tensor.sizes())
                          : "missing";
}

}  // namespace

void FusedOptimizer::start(std::vector<NamedParameter> parameters) {
  memory_.assign(parameters.size(), {});
  on_one_device_ = std::ranges::all_of(parameters, [&](const NamedParameter& parameter) {
    return parameter.value.device() == parameters.front().value.device();
  });
  auto of_parts = parts_of(std::move(parameters));
  for (size_t i = 0; i < parts_.size(); ++i) start_part(i, std::move(of_parts[i]));
}

void FusedOptimizer::start_part(size_t part, std::vector<NamedParameter> parameters) {
  const auto& [whose, lr, weight_decay, rules] = parts_[part];
  auto of_groups = dealt_out(std::move(parameters), rules, whose);
  for (size_t i = 0; i < of_groups.size(); ++i) {
    const auto rule = i == 0 ? GroupRule() : rules[i - 1];
    for (auto& group : groups_by_lr_scale(rule.lr.value_or(lr), std::move(of_groups[i]))) {
      groups().push_back(std::move(group));
      settings_.push_back({.part = part, .weight_decay = rule.weight_decay.value_or(weight_decay)});
    }
  }
}

std::vector<std::vector<NamedParameter>> FusedOptimizer::parts_of(std::vector<NamedParameter> parameters) const {
  return {std::move(parameters)};
}

void FusedOptimizer::read_groups(Options& options, double weight_decay, std::string_view weight_decay_help) {
  parts_.front().weight_decay = options.get<double>("weight_decay", weight_decay, weight_decay_help, {.min = 0});
  parts_.front().groups = read_group_rules(options);
}

void FusedOptimizer::step_unless(const at::Tensor& found_inf) {
  if (reads_overflow_first_) {
    Optimizer::step_unless(found_inf);
  } else {
    step_all(found_inf.ne(0).to(at::kFloat));  // the kernels skip the step for exactly 1
  }
}

// CUDA's kernels read a float32. Those of the CPU convert the tensor back to a number: float64 keeps it exact.
bool FusedOptimizer::send_lrs() {
  if (!on_one_device_) return false;
  lr_tensors_.resize(groups().size());
  for (size_t i = 0; i < lr_tensors_.size(); ++i) {
    const auto& group = groups()[i];
    auto& [tensor, value] = lr_tensors_[i];
    if (group.parameters.empty()) continue;
    const auto& parameter = group.parameters.front().value;
    if (!tensor.defined()) {
      const auto type = parameter.is_cuda() ? at::kFloat : at::kDouble;
      tensor = at::full({}, group.lr, parameter.options().dtype(type).requires_grad(false));
    } else if (group.lr != value) {
      tensor.fill_(group.lr);
    }
    value = group.lr;
  }
  return !reads_overflow_first_;
}

void FusedOptimizer::step_all(const std::optional<at::Tensor>& found_inf) {
  const at::NoGradGuard no_grad;
  auto memory = memory_.begin();
  for (size_t i = 0; i < groups().size(); ++i) {
    std::vector<FusedCall> calls;
    for (const auto& parameter : groups()[i].parameters) add(calls, parameter.value, *memory++);
    for (auto& call : calls) {
      call.part = settings_[i].part;
      call.lr = groups()[i].lr;
      const bool sent = !lr_tensors_.empty() && lr_tensors_[i].value == call.lr;
      if (sent) call.lr_tensor = lr_tensors_[i].tensor;
      call.weight_decay = settings_[i].weight_decay;
      call.found_inf = found_inf;
      update(call);
    }
  }
}

void FusedOptimizer::add(std::vector<FusedCall>& calls, const at::Tensor& parameter, Memory& memory) const {
  const auto& gradient = parameter.grad();
  if (!gradient.defined()) return;
  const bool first = memory.empty();
  if (first)
    std::ranges::transform(kinds_, std::back_inserter(memory), [&](auto& kind) { return blank(kind, parameter); });
  auto call = std::ranges::find_if(calls, [&](const FusedCall& c) {
    const auto& other = c.parameters.front();
    return c.first_step == first && other.device() == parameter.device() &&
           other.scalar_type() == parameter.scalar_type();
  });
  if (call == calls.end()) {
    call = calls.insert(calls.end(), FusedCall{.first_step = first});
    call->memory.resize(kinds_.size());
  }
  call->parameters.push_back(parameter);
  call->gradients.push_back(gradient);
  for (size_t kind = 0; kind < kinds_.size(); ++kind) call->memory[kind].push_back(memory[kind]);
}

OptimizerState FusedOptimizer::state() const {
  OptimizerState state;
  auto memory = memory_.begin();
  for (const auto& group : groups()) {
    for (const auto& parameter : group.parameters) {
      for (size_t kind = 0; kind < memory->size(); ++kind) {
        state.emplace(parameter.name + "/" + kinds_[kind].name, (*memory)[kind]);
      }
      ++memory;
    }
  }
  return state;
}

void FusedOptimizer::load_state(const OptimizerState& state) {
  refuse_unknown(state);
  std::vector<Memory> memory;
  for (const auto& group : groups()) {
    for (const auto& parameter : group.parameters) memory.push_back(load(parameter, state));
  }
  memory_ = std::move(memory);
}

void FusedOptimizer::refuse_unknown(const OptimizerState& state) const {
  std::set<std::string> known;
  for (const auto& group : groups()) {
    for (const auto& parameter : group.parameters) {
      for (const auto& kind : kinds_) known.insert(parameter.name + "/" + kind.name);
    }
  }
  for (const auto& [entry, tensor] : state) {
    if (known.contains(entry)) continue;
    throw UserError("the saved optimizer state holds " + entry +
                    ", which this optimizer with these options does not keep" +
                    (known.empty() ? "" : " (it keeps " + *known.begin() + ", ...)") +
                    "; resume with the model, the optimizer and the options that wrote it");
  }
}

FusedOptimizer::Memory FusedOptimizer::load(const NamedParameter& parameter, const OptimizerState& state) const {
  const auto entry_of = [&](const Kind& kind) { return parameter.name + "/" + kind.name; };
  if (std::ranges::none_of(kinds_, [&](const Kind& kind) { return state.contains(entry_of(kind)); })) return {};
  Memory memory;
  for (const auto& kind : kinds_) {
    const auto entry = state.find(entry_of(kind));
    memory.push_back(loaded(kind, parameter, entry_of(kind), entry == state.end() ? at::Tensor() : entry->second));
  }
  return memory;
}

at::Tensor FusedOptimizer::loaded(const Kind& kind, const NamedParameter& parameter, const std::string& entry,
                                  const at::Tensor& saved) {
  auto tensor = blank(kind, parameter.value);
  if (!saved.defined() || saved.sizes() != tensor.sizes() || saved.scalar_type() != tensor.scalar_type()) {
    throw UserError("the saved optimizer state does not fit: " + entry + " is " + describe(saved) + ", expected " +
                    describe(tensor) + "; resume with the model, the optimizer and the options that wrote it");
  }
  return tensor.copy_(saved);
}

at::Tensor FusedOptimizer::blank(const Kind& kind, const at::Tensor& parameter) {
  if (kind.shape == Shape::kNumber) return at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false));
  return at::zeros_like(parameter.detach());  // strides too: the kernels walk all tensors of a parameter alike
}

}  // namespace ddprun
