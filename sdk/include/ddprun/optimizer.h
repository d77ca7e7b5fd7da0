// SPDX-License-Identifier: MIT
// The rule that changes the weights.
//
// The constructor reads options; start() receives the parameters, already on the device. step() is called from one
// thread without autograd recording, when the gradients are equal on all ranks. A parameter on which the loss of this
// step does not depend has an undefined gradient and is left alone. The runner drops all gradients after the step.
#pragma once

#include <ddprun/plugin.h>

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

namespace ddprun {

// A parameter of the model.
struct NamedParameter {
  std::string name;  // as in the model's state dict: "conv1.weight"
  at::Tensor value;
};

// Parameters with one learning rate.
struct ParameterGroup {
  double lr = 0;
  std::vector<NamedParameter> parameters;
};

// Tensors of the optimizer's memory by "<parameter>/<what>": "conv1.weight/momentum". Goes into checkpoints as it is.
using OptimizerState = std::map<std::string, at::Tensor>;

class DDPRUN_API Optimizer {
 public:
  virtual ~Optimizer();

  // Called once. The default puts all parameters into one group of the learning rate lr.
  virtual void start(std::vector<NamedParameter> parameters);

  // Changes the weights by their gradients.
  virtual void step() = 0;

  // step(), or nothing where `overflow` is not 0: float32 scalar on the parameters' device, which says whether the
  // gradients are not finite: called with mixed precision, and with trainer.on_nonfinite skip. The default reads it,
  // which waits for a GPU; optimizers whose kernels take it override this.
  virtual void step_unless(const at::Tensor& overflow);

  // Where there is a GPU, called before each step: brings the rates of groups() to the parameters' device. True: step()
  // and step_unless() take them from there and, from their second call on, give the GPU the same work every time
  // without waiting for it, so that it can be recorded once and replayed (trainer.cuda_graph). The default says false:
  // such an optimizer's steps are not recorded.
  virtual bool send_rates();

  // The groups, for schedules: a changed lr counts from the next step() on.
  std::vector<ParameterGroup>& groups() { return groups_; }
  const std::vector<ParameterGroup>& groups() const { return groups_; }

  // Everything beyond the weights that the next step depends on. load_state() gets what state() returned, after
  // start(), also between steps (trainer.on_nonfinite rollback), where it takes the place of all that is there; throws
  // UserError naming the entry where it does not fit the parameters.
  virtual OptimizerState state() const = 0;
  virtual void load_state(const OptimizerState& state) = 0;

 protected:
  // The learning rate of the group that start() makes.
  explicit Optimizer(double lr) : initial_lr_(lr) {}

 private:
  double initial_lr_;
  std::vector<ParameterGroup> groups_;
};

}  // namespace ddprun

// Makes the class an optimizer plugin; help_text is shown by `ddprun plugins`. Once in a library, outside any
// namespace.
#define DDPRUN_OPTIMIZER(plugin_class, plugin_name, help_text)                                              \
  DDPRUN_REGISTER_PLUGIN((::ddprun::detail::create_plugin<::ddprun::Optimizer, plugin_class>), "optimizer", \
                         plugin_name, help_text)
