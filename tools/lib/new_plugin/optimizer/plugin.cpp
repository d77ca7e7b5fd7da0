// @name@: RMSprop, which divides each step by a running mean of the gradient's size (Hinton's lecture 6, 2012). Make it
// yours.
#include <ddprun/error.h>
#include <ddprun/optimizer.h>

#include <ATen/ops/zeros_like.h>  // a * b is in <ATen/TensorOperators.h>; all of <ATen/ATen.h> takes ten seconds

#include <map>
#include <string>
#include <vector>

namespace {

class @class@ final : public ddprun::Optimizer {
 public:
  // Reads the options, and nothing more. The base class keeps the learning rate: groups() has it, and a schedule
  // changes it.
  explicit @class@(ddprun::Options& options)
      : ddprun::Optimizer(options.get<double>("lr", 0.01, "learning rate", {.min = 0})),
        alpha_(options.get<double>("alpha", 0.99, "decay of the running mean of squares", {.min = 0, .max = 1})),
        eps_(options.get<double>("eps", 1e-8, "added to the denominator", {.min = 0})) {}

  // The gradients are the mean over all workers, and the same on each; so all take the same step. A parameter that the
  // loss does not depend on has no gradient, and is left alone. No autograd is recorded here.
  void step() override {
    for (const auto& group : groups()) {
      for (const auto& [name, value] : group.parameters) {
        const auto& gradient = value.grad();
        if (!gradient.defined()) continue;
        auto& square = squares_[name];
        if (!square.defined()) square = at::zeros_like(value.detach());
        square.mul_(alpha_).addcmul_(gradient, gradient, 1 - alpha_);
        value.detach().addcdiv_(gradient, square.sqrt().add_(eps_), -group.lr);
      }
    }
  }

  // Each parameter is stepped by itself, so that workers can share them (trainer.shard_optimizer). Remove this if one
  // parameter's step depends on another's gradient, as a norm over all of them does.
  std::vector<ddprun::StepPart> step_parts() const override { return parts_by_parameter(); }

  // What the next step depends on besides the weights: "<parameter>/<what>". It goes into checkpoints.
  ddprun::OptimizerState state() const override {
    ddprun::OptimizerState state;
    for (const auto& [name, square] : squares_) state[name + "/square"] = square;
    return state;
  }

  // Takes the place of all that is there. Built up aside, so that a state that does not fit changes nothing.
  void load_state(const ddprun::OptimizerState& state) override {
    std::map<std::string, at::Tensor> squares;
    for (const auto& [entry, tensor] : state) {
      const auto* value = parameter_of(entry);
      if (!value || value->sizes() != tensor.sizes()) {
        throw ddprun::UserError("the saved state of @name@ does not fit the model: " + entry);
      }
      auto& square = squares[entry.substr(0, entry.rfind('/'))];
      square = at::zeros_like(value->detach()).copy_(tensor);
    }
    squares_ = std::move(squares);
  }

 private:
  // The parameter that an entry of the state belongs to; null where there is none.
  const at::Tensor* parameter_of(const std::string& entry) const {
    for (const auto& group : groups()) {
      for (const auto& [name, value] : group.parameters) {
        if (entry == name + "/square") return &value;
      }
    }
    return nullptr;
  }

  const double alpha_, eps_;
  std::map<std::string, at::Tensor> squares_;  // by parameter, from its first gradient on
};

}  // namespace

DDPRUN_OPTIMIZER(@class@, "@name@", "steps divided by a running mean of the gradient's size")
