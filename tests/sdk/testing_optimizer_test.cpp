// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good optimizer, which all of them pass, and a fault for each thing that they
// find.
#include "support/error_of.h"

#include <ddprun/testing/optimizer.h>

#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cmath>

namespace ddprun::check {
namespace {

using Memory = std::map<std::string, at::Tensor>;

// SGD with momentum. A fault takes the place of one of its hooks.
class Momentum : public Optimizer {
 public:
  Momentum() : Optimizer(0.1) {}

  std::function<void(Momentum&, const std::string&, const at::Tensor&, double)> moves = &Momentum::move;
  std::function<void(Momentum&)> steps = [](Momentum& own) { own.move_all(); };
  std::function<void(Momentum&, const at::Tensor&)> steps_unless;
  std::function<void(Momentum&, const OptimizerState&)> loads = &Momentum::load;
  bool has_state = true, has_parts = false;
  Memory memory;

  void move(const std::string& name, const at::Tensor& value, double lr) {
    auto& own = memory[name];
    own = own.defined() ? own * 0.9 + value.grad() : value.grad().clone();
    value.detach().sub_(own, lr);
  }
  void move_all() {
    for (const auto& group : groups()) {
      for (const auto& [name, value] : group.parameters) {
        if (value.grad().defined()) moves(*this, name, value, group.lr);
      }
    }
  }
  void load(const OptimizerState& state) {
    Memory loaded;
    for (const auto& [entry, tensor] : state) loaded[name_of(entry, tensor)] = tensor.clone();
    memory = std::move(loaded);
  }

  void step() override { steps(*this); }
  void step_unless(const at::Tensor& overflow) override {
    steps_unless ? steps_unless(*this, overflow) : Optimizer::step_unless(overflow);
  }
  std::vector<StepPart> step_parts() const override {
    return has_parts ? parts_by_parameter() : Optimizer::step_parts();
  }
  OptimizerState state() const override {
    OptimizerState state;
    for (const auto& [name, tensor] : memory) {
      if (has_state) state[name + "/momentum"] = tensor;
    }
    return state;
  }
  void load_state(const OptimizerState& state) override { loads(*this, state); }

 private:
  // The parameter of an entry that fits.
  std::string name_of(const std::string& entry, const at::Tensor& tensor) const {
    for (const auto& [name, value] : groups().front().parameters) {
      if (entry == name + "/momentum" && value.sizes() == tensor.sizes()) return name;
    }
    throw UserError(entry + " does not fit");
  }
};

using SpoilOptimizer = std::function<void(Momentum&)>;

OptimizerTest optimizer_test(const SpoilOptimizer& spoil) {
  return {.make = [spoil] {
    auto optimizer = std::make_shared<Momentum>();
    spoil(*optimizer);
    return optimizer;
  }};
}

// Moves at this multiple of the rate, or at a rate of its own.
SpoilOptimizer at_rate(double factor, double own = 0) {
  return [=](Momentum& optimizer) {
    optimizer.moves = [=](Momentum& momentum, const std::string& name, const at::Tensor& value, double lr) {
      momentum.move(name, value, factor * lr + own);
    };
  };
}

std::string same_as_sgd(const OptimizerTest& test) {
  return same_as(test, torch_optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9)));
}

void forget(Momentum& optimizer) {
  optimizer.moves = [](Momentum&, const std::string&, const at::Tensor& value, double lr) {
    value.detach().sub_(value.grad(), lr);
  };
}

// Scales the steps by a norm over all gradients.
void normalize(Momentum& optimizer) {
  optimizer.has_parts = true;
  optimizer.steps = [](Momentum& own) {
    double sum = 0;
    for (const auto& [name, value] : own.groups().front().parameters)
      if (value.grad().defined()) sum += value.grad().square().sum().item<double>();
    at_rate(1 / std::sqrt(sum))(own);
    own.move_all();
  };
}

TEST(OptimizerChecks, FindEachFaultAndNothingWrongWithAGoodOptimizer) {
  for (const bool parts : {false, true}) {
    const auto good = optimizer_test([parts](Momentum& optimizer) { optimizer.has_parts = parts; });
    EXPECT_EQ(all(good), std::vector<std::string>());
    EXPECT_EQ(same_as_sgd(good), "");
  }
  struct Fault {
    std::string (*check)(const OptimizerTest&);
    SpoilOptimizer spoil;
    std::string words;
  };
  const std::vector<Fault> faults{
      {same_as_sgd, at_rate(1.001),
       "after step 1 conv.weight differs from the reference's by ... options and defaults"},
      {same_as_sgd, forget, "after step 2 ... what it remembers"},
      {steps, [](Momentum& one) { one.moves = [](Momentum&, const std::string&, const at::Tensor&, double) {}; },
       "step() changes nothing"},
      {steps,
       [](Momentum& one) {
         one.steps = [](Momentum& own) {
           own.move_all();
           for (const auto& parameter : own.groups().front().parameters) parameter.value.detach().mul_(0.99);
         };
       },
       "late has changed, although it has no gradient"},
      {steps, at_rate(0, 0.1), "with lr 0 in groups() a step changes conv.weight"},
      {skips_overflow, [](Momentum& one) { one.steps_unless = [](Momentum& own, const at::Tensor&) { own.step(); }; },
       "after step 4 conv.weight is not ... a step that overflowed must change"},
      {skips_overflow,
       [](Momentum& one) {
         one.steps_unless = [](Momentum& own, const at::Tensor& overflow) {
           if (overflow.item<float>() == 0) return own.step();
           for (auto& [name, remembered] : own.memory) remembered = remembered * 0.9;
         };
       },
       "after step 4 conv.weight is not"},
      {state_round_trip, [](Momentum& one) { one.has_state = false; },
       "resumed after step 1, conv.weight is not what it is"},
      {state_round_trip,
       [](Momentum& one) {
         one.loads = [](Momentum& own, const OptimizerState& state) {
           const auto before = own.memory;
           own.load(state);
           for (const auto& [name, tensor] : before) own.memory.emplace(name, tensor);
         };
       },
       "resumed after step 0 by an optimizer that has made other steps, conv.weight is not"},
      {state_round_trip,
       [](Momentum& one) {
         one.loads = [](Momentum& own, const OptimizerState& state) {
           own.memory.clear();
           for (const auto& [entry, tensor] : state) own.memory[entry.substr(0, entry.rfind('/'))] = tensor.clone();
         };
       },
       "load_state() takes an entry of a parameter"},
      {state_round_trip,
       [](Momentum& one) {
         one.loads = [](Momentum& own, const OptimizerState& state) {
           const auto problem = error_of([&] { own.load(state); });
           if (!problem.empty()) throw std::runtime_error(problem);
         };
       },
       "throws no UserError"},
      {step_parts, normalize, "conv.weight has other bits where only its part of step_parts() has gradients"}};
  for (const auto& fault : faults) EXPECT_TRUE(says(fault.check(optimizer_test(fault.spoil)), fault.words));
}

}  // namespace
}  // namespace ddprun::check
