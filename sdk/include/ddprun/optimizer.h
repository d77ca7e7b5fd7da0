// SPDX-License-Identifier: MIT
// The rule that changes the weights.
//
// The constructor reads options; start() receives the parameters, already on the device. step() is called from one
// thread without autograd recording, when the gradients are equal on all ranks. A parameter that this step's loss does
// not depend on has an undefined gradient and is left alone. The runner drops all gradients after the step.
#pragma once

#include <ddprun/plugin.h>

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// A parameter of the model.
struct NamedParameter {
  std::string name;  // as in the model's state dict: "conv1.weight"
  at::Tensor value;
};

// Parameters that share a learning rate.
struct ParameterGroup {
  double lr = 0;
  std::vector<NamedParameter> parameters;
  double lr_scale = 1;  // the runner sets lr to the schedule's, times this
};

// The optimizer's state tensors by "<parameter>/<what>": "conv1.weight/momentum". Checkpoints store it as it is.
using OptimizerState = std::map<std::string, at::Tensor>;

// Parameters whose step is computed together, apart from all others.
struct StepPart {
  std::vector<std::string> parameters;  // their names
  double cost = 0;                      // of the step, in relation to the other parts'
};

class DDPRUN_API Optimizer {
 public:
  virtual ~Optimizer();

  // Called once, with all parameters that the model trains; frozen ones (pretrained.freeze) are among them and have no
  // gradient, perhaps ever. The default puts all parameters into one group with the learning rate lr.
  virtual void start(std::vector<NamedParameter> parameters);

  // Called before start() with pretrained.layer_decay: the parts of their group's lr that parameters take, by name; 1
  // for those that are not named. The runner refuses an optimizer whose groups do not keep them apart.
  void set_lr_scales(std::map<std::string, double> scales) { lr_scales_ = std::move(scales); }

  // Updates the weights from their gradients.
  virtual void step() = 0;

  // Calls step(), or does nothing if `found_inf` is not 0. It is a float32 scalar on the
  // parameters' device that says whether a gradient is not finite. Called with mixed precision and with
  // trainer.on_nonfinite skip. The default reads it, which waits for the GPU; optimizers whose kernels take it override
  // this.
  virtual void step_unless(const at::Tensor& found_inf);

  // Called before each step if there is a GPU: copies the learning rates of groups() to the parameters' device. Returns
  // true if step() and step_unless() read them there and, from their second call on, launch the same GPU work every
  // time without waiting for it, so that the step can be captured once and replayed (trainer.cuda_graph). The default
  // returns false: the optimizer's steps are not captured.
  virtual bool send_lrs();

  // Returns the parts of step() that ranks can share among them (trainer.shard_optimizer), after start(); each
  // parameter is in one of them. What step() makes of a part, to the last bit, must depend on nothing but the weights,
  // gradients and state of its parameters: a rank steps the parts that it is given, while all other gradients are
  // undefined, and gets the others' new weights. state() must return entries "<parameter>/<what>" of parameters that
  // have had a gradient, and load_state() take those of some parts alone. The default returns no parts: the step needs
  // all parameters at once, and trainer.shard_optimizer refuses the optimizer.
  virtual std::vector<StepPart> step_parts() const;

  // Returns the groups, for schedules: a changed lr takes effect at the next step().
  std::vector<ParameterGroup>& groups() { return groups_; }
  const std::vector<ParameterGroup>& groups() const { return groups_; }

  // Returns all state beyond the weights that the next step depends on. load_state() receives what state() returned,
  // with row-major strides whatever they were, after start() and also after a step on trial (trainer.micro_batch auto),
  // and replaces all present state; it throws UserError naming the entry that does not fit the parameters.
  virtual OptimizerState state() const = 0;
  virtual void load_state(const OptimizerState& state) = 0;

 protected:
  // `lr` is the learning rate of the group that start() makes.
  explicit Optimizer(double lr) : initial_lr_(lr) {}

  // Returns groups of these parameters with the learning rate lr, one for each lr_scale: first that of 1, even if it is
  // empty, then the others from the largest on. For start() of an optimizer with groups.
  std::vector<ParameterGroup> groups_by_lr_scale(double lr, std::vector<NamedParameter> parameters) const;

  // Returns each parameter of groups() as a part, which costs as much as it has numbers. For step_parts() of an
  // optimizer that steps tensor by tensor.
  std::vector<StepPart> parts_by_parameter() const;

 private:
  double initial_lr_;
  std::map<std::string, double> lr_scales_;
  std::vector<ParameterGroup> groups_;
};

}  // namespace ddprun

// Registers the class as an optimizer plugin; `ddprun plugins` shows help_text. Use once per library, outside any
// namespace.
#define DDPRUN_OPTIMIZER(plugin_class, plugin_name, help_text)                                              \
  DDPRUN_REGISTER_PLUGIN((::ddprun::detail::create_plugin<::ddprun::Optimizer, plugin_class>), "optimizer", \
                         plugin_name, help_text)
