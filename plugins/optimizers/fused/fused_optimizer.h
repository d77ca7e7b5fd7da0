// SPDX-License-Identifier: MIT
// Base of the optimizers on LibTorch's fused kernels: one kernel call for all parameters of a device and type, state
// tensors for each parameter from its first step on, and parameter groups with their own learning rate and weight
// decay. An optimizer with two update rules has two parts, each with its groups. It is compiled into each of these
// plugins and is not a plugin itself.
#pragma once

#include "group_rule.h"

#include <ddprun/optimizer.h>

#include <optional>

namespace ddprun {

// The arguments of one kernel call: the parameters of one group, device and type that have a gradient.
struct FusedCall {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::vector<at::Tensor>> memory;  // [in the order of remember()][parameter]
  size_t part = 0;                              // index of the optimizer's part, in the order of parts_of()
  double lr = 0, weight_decay = 0;
  at::Tensor lr_tensor;                 // lr on the device, if the kernel reads it there; otherwise undefined
  std::optional<at::Tensor> found_inf;  // 0, or 1 if the kernel is to change nothing
  bool first_step = false;              // of all these parameters: their state is still zero

  // Calls `step` with the learning rate, as a number or a tensor.
  template <class Step>
  void with_lr(Step step) const {
    lr_tensor.defined() ? step(lr_tensor) : step(lr);
  }
};

class FusedOptimizer : public Optimizer {
 public:
  // The first of groups() holds the first part's parameters that its option `groups` does not name; it may be empty.
  // Its other groups follow, then the next part in the same way.
  void start(std::vector<NamedParameter> parameters) final;
  void step() final { step_all({}); }
  void step_unless(const at::Tensor& found_inf) final;
  bool send_lrs() final;
  // Returns the tensors themselves, not copies: the next step() changes them.
  OptimizerState state() const final;
  void load_state(const OptimizerState& state) final;
  std::vector<StepPart> step_parts() const override { return parts_by_parameter(); }

 protected:
  enum class Shape { kLikeParameter, kNumber };  // kNumber: float32 scalar on the parameter's device

  // Parameters with one update rule. A group without an lr or weight decay uses its part's.
  struct Part {
    std::string whose;  // what errors call its parameters, "Muon's"; empty where they are all
    double lr = 0, weight_decay = 0;
    std::vector<GroupRule> groups;
  };

  // `lr` is that of the first part, which all optimizers have.
  explicit FusedOptimizer(double lr, std::string whose = "")
      : Optimizer(lr), parts_{{.whose = std::move(whose), .lr = lr}} {}

  // For constructors: each parameter has a tensor of this name in state().
  void remember(std::string name, Shape shape) { kinds_.push_back({std::move(name), shape}); }

  // For constructors: declares `weight_decay` and `groups` of the first part.
  void read_groups(Options& options, double weight_decay, std::string_view weight_decay_help);

  // For constructors: adds a further part.
  void add_part(Part part) { parts_.push_back(std::move(part)); }

  // For constructors: a step that overflowed must not count as the parameters' first, and the kernel cannot know.
  void read_overflow_first() { reads_overflow_first_ = true; }

  // Returns the parameters of each part. Override it if there are several.
  virtual std::vector<std::vector<NamedParameter>> parts_of(std::vector<NamedParameter> parameters) const;

  virtual void update(const FusedCall& call) = 0;

  size_t part_of_group(size_t group) const { return settings_[group].part; }  // of an entry of groups()

 private:
  struct GroupSetting {
    size_t part;
    double weight_decay;
  };
  struct Kind {
    std::string name;
    Shape shape;
  };
  // The learning rate of one of groups() on its parameters' device: a scalar that is refilled when the lr changes.
  struct SentLr {
    at::Tensor tensor;  // undefined: the group has no parameters
    double value = 0;
  };
  using Memory = std::vector<at::Tensor>;  // one per kind; empty before the parameter's first step

  void start_part(size_t part, std::vector<NamedParameter> parameters);
  void step_all(const std::optional<at::Tensor>& found_inf);
  static at::Tensor blank(const Kind& kind, const at::Tensor& parameter);
  static at::Tensor loaded(const Kind& kind, const NamedParameter& parameter, const std::string& entry,
                           const at::Tensor& saved);
  Memory load(const NamedParameter& parameter, const OptimizerState& state) const;
  void refuse_unknown(const OptimizerState& state) const;
  void add(std::vector<FusedCall>& calls, const at::Tensor& parameter, Memory& memory) const;

  std::vector<Kind> kinds_;
  bool reads_overflow_first_ = false, on_one_device_ = false;
  std::vector<Part> parts_;
  std::vector<GroupSetting> settings_;  // one per entry of groups()
  std::vector<SentLr> lr_tensors_;      // one per entry of groups(); empty until somebody asks for them
  std::vector<Memory> memory_;          // one per parameter, group after group
};

}  // namespace ddprun
