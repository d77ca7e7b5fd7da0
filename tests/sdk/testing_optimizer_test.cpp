// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good optimizer, which all of them pass, and one optimizer for each thing that
// they find.
#include <ddprun/error.h>
#include <ddprun/testing/optimizer.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

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

class Climbing : public Momentum {
  void move(const std::string& name, const at::Tensor& value, double lr) override { Momentum::move(name, value, -lr); }
};

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

TEST(OptimizerSteps, GoDownAtTheRateOfTheirGroup) {
  EXPECT_THAT(steps(optimizer_test_of<Climbing>()), HasSubstr("is the sign right?"));
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
  EXPECT_THAT(skips_overflow(optimizer_test_of<SteppingAnyway>()), StartsWith("after step 1 conv.weight is different"));
  EXPECT_THAT(skips_overflow(optimizer_test_of<RememberingOverflow>()),
              StartsWith("after step 4 conv.weight is different"));
}

class WithoutState : public Momentum {
 public:
  OptimizerState state() const override { return {}; }
};

class Renaming : public Momentum {
 public:
  OptimizerState state() const override {
    OptimizerState state;
    for (const auto& [name, tensor] : memory_) state["momentum of " + name] = tensor;
    return state;
  }
};

// Goes on in the tensors that it was given.
class Borrowing : public Momentum {
 public:
  void load_state(const OptimizerState& state) override {
    std::map<std::string, at::Tensor> memory;
    for (const auto& [entry, tensor] : state) memory[name_of(entry, tensor)] = tensor;
    memory_ = std::move(memory);
  }

 protected:
  void move(const std::string& name, const at::Tensor& value, double lr) override {
    auto& memory = memory_[name];
    if (!memory.defined()) memory = torch::zeros_like(value.detach());
    memory.mul_(0.9).add_(value.grad());
    value.detach().sub_(memory, lr);
  }
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
  EXPECT_THAT(state_round_trip(optimizer_test_of<Renaming>()),
              AllOf(StartsWith("state() names momentum of "), HasSubstr("<parameter>/<what>")));
  EXPECT_THAT(state_round_trip(optimizer_test_of<Borrowing>()), HasSubstr("copy it (clone() or copy_())"));
  EXPECT_THAT(state_round_trip(optimizer_test_of<Adding>()), HasSubstr("must forget what"));
}

class TakingAll : public Momentum {
 public:
  void load_state(const OptimizerState& state) override {
    memory_.clear();
    for (const auto& [entry, tensor] : state) memory_[entry.substr(0, entry.rfind('/'))] = tensor.clone();
  }
};

class Mute : public Momentum {
 public:
  void load_state(const OptimizerState& state) override try { Momentum::load_state(state); } catch (const UserError&) {
    throw UserError("the state does not fit");
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

class Halfway : public Momentum {
 public:
  void load_state(const OptimizerState& state) override {
    memory_.clear();
    for (const auto& [entry, tensor] : state) memory_[name_of(entry, tensor)] = tensor.clone();
  }
};

TEST(OptimizerStateChecks, FindWhatTakesAnyState) {
  EXPECT_THAT(state_round_trip(optimizer_test_of<TakingAll>()),
              StartsWith("load_state() takes a state with an entry of a parameter"));
  EXPECT_THAT(state_round_trip(optimizer_test_of<Mute>()), HasSubstr("but does not name nobody.weight/what"));
  EXPECT_THAT(state_round_trip(optimizer_test_of<ThrowingAnything>()), HasSubstr("throws no UserError"));
  EXPECT_THAT(state_round_trip(optimizer_test_of<Halfway>()), HasSubstr("but has changed"));
}

}  // namespace
}  // namespace ddprun::check
