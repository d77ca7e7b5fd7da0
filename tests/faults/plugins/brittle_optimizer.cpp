// SPDX-License-Identifier: MIT
#include "brittle.h"

#include <ddprun/optimizer.h>

#include <torch/types.h>

namespace {

class BrittleOptimizer final : public ddprun::Optimizer {
 public:
  explicit BrittleOptimizer(ddprun::Options& /*options*/) : Optimizer(0.1) {}

  void start(std::vector<ddprun::NamedParameter> parameters) override {
    brittle::reach("optimizer.start");
    for (const auto& parameter : parameters) momentum_[parameter.name] = at::zeros_like(parameter.value);
    Optimizer::start(std::move(parameters));
  }

  void step() override {
    brittle::reach("optimizer.step");
    const torch::NoGradGuard no_gradients;
    for (auto& parameter : groups().front().parameters) {
      auto& momentum = momentum_.at(parameter.name);
      momentum.mul_(0.9).add_(parameter.value.grad());
      parameter.value.sub_(momentum, groups().front().lr);
    }
  }

  ddprun::OptimizerState state() const override {
    brittle::reach("optimizer.state");
    return momentum_;
  }

  void load_state(const ddprun::OptimizerState& state) override {
    brittle::reach("optimizer.load_state");
    for (auto& [name, momentum] : momentum_) momentum.copy_(state.at(name));
  }

 private:
  ddprun::OptimizerState momentum_;
};

}  // namespace

DDPRUN_OPTIMIZER(BrittleOptimizer, "brittle_optimizer", "gradient descent with momentum whose hooks fail on demand")
