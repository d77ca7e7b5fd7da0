// SPDX-License-Identifier: MIT
// What optimizers on LibTorch's fused kernels have in common: one kernel call for all parameters of a device and
// type, tensors remembered for each parameter from its first step on, and groups of parameters with a rate and a
// decay of their own. Compiled into each of these plugins; no plugin itself.
#pragma once

#include <ddprun/optimizer.h>

#include <optional>

#include "group_rule.h"

namespace ddprun {

// The arguments of one kernel call: the parameters of one group, device and type that have a gradient.
struct FusedCall {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::vector<at::Tensor>> memory;  // [in the order of remember()][parameter]
  double lr = 0, weight_decay = 0;
  std::optional<at::Tensor> overflow;  // where it is not 0, the kernel changes nothing
  bool first_step = false;             // of all these parameters: what they remember is still zero
};

class FusedOptimizer : public Optimizer {
 public:
  // The first of groups() is that of the parameters which the option `groups` does not name; it may be empty.
  void start(std::vector<NamedParameter> parameters) final;
  void step() final { step_all({}); }
  void step_unless(const at::Tensor& overflow) final;
  // The tensors themselves, not copies: the next step() changes them.
  OptimizerState state() const final;
  void load_state(const OptimizerState& state) final;

 protected:
  enum class Shape { kLikeParameter, kNumber };  // kNumber: float32 without dimensions, on the parameter's device

  using Optimizer::Optimizer;

  // For constructors: each parameter has a tensor of this name in state().
  void remember(std::string name, Shape shape) { kinds_.push_back({std::move(name), shape}); }

  // For constructors: declares `weight_decay` and `groups`.
  void read_groups(Options& options, double weight_decay, std::string_view weight_decay_help);

  // For constructors: a step that overflowed must not count as the parameters' first, which the kernel cannot see to.
  void read_overflow_first() { reads_overflow_first_ = true; }

  virtual void update(const FusedCall& call) = 0;

 private:
  struct Kind {
    std::string name;
    Shape shape;
  };
  using Memory = std::vector<at::Tensor>;  // one for each kind; empty before the parameter's first step

  void step_all(const std::optional<at::Tensor>& overflow);
  static at::Tensor blank(const Kind& kind, const at::Tensor& parameter);
  static at::Tensor loaded(const Kind& kind, const NamedParameter& parameter, const std::string& entry,
                           const at::Tensor& saved);
  Memory load(const NamedParameter& parameter, const OptimizerState& state) const;
  void refuse_unknown(const OptimizerState& state) const;
  void add(std::vector<FusedCall>& calls, const at::Tensor& parameter, Memory& memory) const;

  std::vector<Kind> kinds_;
  bool reads_overflow_first_ = false;
  double weight_decay_ = 0;
  std::vector<GroupRule> rules_;  // of groups() from the second on
  std::vector<Memory> memory_;    // one for each parameter, group after group
};

}  // namespace ddprun
