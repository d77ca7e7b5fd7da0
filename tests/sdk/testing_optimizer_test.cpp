// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good optimizer, which all of them pass, and one optimizer for each thing that
// they find.
#include <ddprun/error.h>
#include <ddprun/testing/optimizer.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>

namespace ddprun::check {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// SGD with momentum, in steps that the broken ones change.
class Momentum : public Optimizer {
 public:
  Momentum() : Optimizer(0.1) {}

  void step() override {
    for (const auto& group : groups()) {
      for (const auto& [name, value] : group.parameters) {
        if (value.grad().defined()) move(name, value, group.lr);
      }
    }
  }

  OptimizerState state() const override {
    OptimizerState state;
    for (const auto& [name, tensor] : memory_) state[name + "/momentum"] = tensor;
    return state;
  }

  void load_state(const OptimizerState& state) override {
    std::map<std::string, at::Tensor> memory;
    for (const auto& [entry, tensor] : state) memory[name_of(entry, tensor)] = tensor.clone();
    memory_ = std::move(memory);
  }

 protected:
  virtual void move(const std::string& name, const at::Tensor& value, double lr) {
    auto& memory = memory_[name];
    memory = memory.defined() ? memory * 0.9 + value.grad() : value.grad().clone();
    value.detach().sub_(memory, lr);
  }

  // The parameter of an entry that fits.
  std::string name_of(const std::string& entry, const at::Tensor& tensor) const {
    for (const auto& [name, value] : groups().front().parameters) {
      if (entry == name + "/momentum" && value.sizes() == tensor.sizes()) return name;
    }
    throw UserError(entry + " does not fit");
  }

  std::map<std::string, at::Tensor> memory_;
};

template <class Kind>
OptimizerTest optimizer_test_of() {
  return {.make = [] { return std::make_shared<Kind>(); }};
}

Reference sgd(double momentum) {
  return torch_optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(momentum));
}

TEST(OptimizerChecks, FindNothingWrongWithAGoodOptimizer) {
  EXPECT_THAT(all(optimizer_test_of<Momentum>()), IsEmpty());
  EXPECT_EQ(same_as(optimizer_test_of<Momentum>(), sgd(0.9)), "");
}

class Forgetful : public Momentum {
  void move(const std::string&, const at::Tensor& value, double lr) override { value.detach().sub_(value.grad(), lr); }
};

class Faster : public Momentum {
  void move(const std::string& name, const at::Tensor& value, double lr) override {
    Momentum::move(name, value, 1.001 * lr);
  }
};

TEST(OptimizerReference, DiffersFromTheFirstStepOnOrLater) {
  EXPECT_THAT(same_as(optimizer_test_of<Faster>(), sgd(0.9)),
              AllOf(StartsWith("after step 1 conv.weight differs from the reference's by "),
                    HasSubstr("options and defaults")));
  EXPECT_THAT(same_as(optimizer_test_of<Forgetful>(), sgd(0.9)),
              AllOf(StartsWith("after step 2 "), HasSubstr("what it remembers")));
}

class Standing : public Momentum {
  void move(const std::string&, const at::Tensor&, double) override {}
};

class DecayingAll : public Momentum {
 public:
  void step() override {
    Momentum::step();
    for (const auto& parameter : groups().front().parameters) parameter.value.detach().mul_(0.99);
  }
};

class WithAFixedRate : public Momentum {
  void move(const std::string& name, const at::Tensor& value, double) override { Momentum::move(name, value, 0.1); }
};

TEST(OptimizerSteps, GoAtTheRateOfTheirGroup) {
  EXPECT_THAT(steps(optimizer_test_of<Standing>()), HasSubstr("step() changes nothing"));
  EXPECT_EQ(steps(optimizer_test_of<DecayingAll>()), "late has changed, although it has no gradient");
  EXPECT_THAT(steps(optimizer_test_of<WithAFixedRate>()),
              StartsWith("with lr 0 in groups() a step changes conv.weight"));
}

class SteppingAnyway : public Momentum {
 public:
  void step_unless(const at::Tensor&) override { step(); }
};

class RememberingOverflow : public Momentum {
 public:
  void step_unless(const at::Tensor& overflow) override {
    if (overflow.item<float>() == 0) return step();
    for (auto& [name, memory] : memory_) memory = memory * 0.9;
  }
};

TEST(OptimizerOverflow, IsAsIfItHadNotBeen) {
  EXPECT_THAT(skips_overflow(optimizer_test_of<SteppingAnyway>()),
              AllOf(StartsWith("after step 4 conv.weight is not"), HasSubstr("a step that overflowed must change")));
  EXPECT_THAT(skips_overflow(optimizer_test_of<RememberingOverflow>()), StartsWith("after step 4 conv.weight is not"));
}

class WithoutState : public Momentum {
 public:
  OptimizerState state() const override { return {}; }
};

class Adding : public Momentum {
 public:
  void load_state(const OptimizerState& state) override {
    const auto before = memory_;
    Momentum::load_state(state);
    for (const auto& [name, tensor] : before) memory_.emplace(name, tensor);
  }
};

TEST(OptimizerStateChecks, FindWhatAResumedRunWouldMiss) {
  EXPECT_THAT(state_round_trip(optimizer_test_of<WithoutState>()),
              StartsWith("resumed after step 1, conv.weight is not what it is"));
  EXPECT_THAT(state_round_trip(optimizer_test_of<Adding>()),
              StartsWith("resumed after step 0 by an optimizer that has made other steps, conv.weight is not"));
}

class TakingAll : public Momentum {
 public:
  void load_state(const OptimizerState& state) override {
    memory_.clear();
    for (const auto& [entry, tensor] : state) memory_[entry.substr(0, entry.rfind('/'))] = tensor.clone();
  }
};

class ThrowingAnything : public Momentum {
 public:
  void load_state(const OptimizerState& state) override try {
    Momentum::load_state(state);
  } catch (const UserError& error) {
    throw std::runtime_error(error.what());
  }
};

TEST(OptimizerStateChecks, FindWhatTakesAnyState) {
  EXPECT_THAT(state_round_trip(optimizer_test_of<TakingAll>()),
              StartsWith("load_state() takes an entry of a parameter"));
  EXPECT_THAT(state_round_trip(optimizer_test_of<ThrowingAnything>()), HasSubstr("throws no UserError"));
}

class OfParts : public Momentum {
 public:
  std::vector<StepPart> step_parts() const override { return parts_by_parameter(); }
};

// Scales the steps by a norm over all gradients.
class Normalizing : public OfParts {
 public:
  void step() override {
    double sum = 0;
    for (const auto& [name, value] : groups().front().parameters)
      if (value.grad().defined()) sum += value.grad().square().sum().item<double>();
    rate_ = 1 / std::sqrt(sum);
    Momentum::step();
  }

 protected:
  void move(const std::string& name, const at::Tensor& value, double lr) override {
    Momentum::move(name, value, rate_ * lr);
  }

 private:
  double rate_ = 1;
};

TEST(OptimizerParts, AreSteppedAsIfThereWereNoOther) {
  EXPECT_THAT(all(optimizer_test_of<OfParts>()), IsEmpty());
  EXPECT_THAT(step_parts(optimizer_test_of<Normalizing>()),
              StartsWith("conv.weight has other bits where only its part of step_parts() has gradients"));
}

}  // namespace
}  // namespace ddprun::check
