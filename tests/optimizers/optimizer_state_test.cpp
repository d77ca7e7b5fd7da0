// SPDX-License-Identifier: MIT
#include "optimizers/training.h"
#include "support/error_of.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>

#include <limits>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<OptimizerCase> kSaved = {
    {"Sgd", "sgd", {}},
    {"SgdWithMomentum", "sgd", {{"momentum", "0.9"}, {"dampening", "0.5"}, {"weight_decay", "0.1"}}},
    {"SgdWithNesterov", "sgd", {{"momentum", "0.9"}, {"nesterov", "true"}}},
    {"Adam", "adam", {{"weight_decay", "0.1"}}},
    {"AdamWithAmsgrad", "adam", {{"amsgrad", "true"}}},
    {"AdamW", "adamw", {}},
};

class SavedOptimizer : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  static std::shared_ptr<Optimizer> started(const std::vector<NamedParameter>& parameters) {
    const auto optimizer = make_optimizer(GetParam().plugin, GetParam().options);
    optimizer->start(parameters);
    return optimizer;
  }

  static void train(Optimizer& optimizer, const std::vector<NamedParameter>& parameters, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) {
      set_gradients(parameters, step);
      optimizer.step();
    }
  }
};

OptimizerState saved(const Optimizer& optimizer) {
  auto state = optimizer.state();
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  return state;
}

TEST_P(SavedOptimizer, ResumedStepsAreBitIdenticalToThoseNeverInterrupted) {
  for (const int64_t interruption : {0, 1, 4, 7}) {  // "late" gets its first gradient at step 5
    const auto parameters = make_parameters();
    const auto optimizer = started(parameters);
    train(*optimizer, parameters, 0, interruption);
    const auto state = saved(*optimizer);
    const auto resumed_parameters = copies(parameters);
    train(*optimizer, parameters, interruption, 12);

    const auto resumed = started(resumed_parameters);
    resumed->load_state(state);
    train(*resumed, resumed_parameters, interruption, 12);
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(torch::equal(parameters[i].value, resumed_parameters[i].value))
          << parameters[i].name << ", interrupted at step " << interruption;
    }
  }
}

TEST_P(SavedOptimizer, LoadedTensorsAreCopies) {
  const auto parameters = make_parameters();
  const auto optimizer = started(parameters);
  train(*optimizer, parameters, 0, 2);
  const auto state = saved(*optimizer);
  const auto before = saved(*optimizer);
  optimizer->load_state(state);
  train(*optimizer, parameters, 2, 3);
  for (const auto& [name, tensor] : before) EXPECT_TRUE(torch::equal(tensor, state.at(name))) << name;
}

TEST_P(SavedOptimizer, AStepThatOverflowedIsAsIfItHadNotBeen) {
  const auto parameters = make_parameters();
  const auto optimizer = started(parameters);
  const auto skipped_parameters = copies(parameters);
  const auto skipping = started(skipped_parameters);
  const auto none = torch::zeros({}), overflow = torch::ones({});
  for (int64_t step = 0; step < 8; ++step) {
    set_gradients(parameters, step);
    optimizer->step();
    if (step == 0 || step == 3) {
      set_gradients(skipped_parameters, step);
      skipped_parameters[0].value.mutable_grad().fill_(std::numeric_limits<float>::infinity());
      skipping->step_unless(overflow);
    }
    set_gradients(skipped_parameters, step);
    skipping->step_unless(none);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(torch::equal(parameters[i].value, skipped_parameters[i].value)) << parameters[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, SavedOptimizer, ::testing::ValuesIn(kSaved),
                         [](const auto& test) { return test.param.title; });

std::shared_ptr<Optimizer> stepped(const std::string& plugin, const OptionTexts& options) {
  const auto parameters = make_parameters();
  const auto optimizer = make_optimizer(plugin, options);
  optimizer->start(parameters);
  set_gradients(parameters, 0);
  optimizer->step();
  return optimizer;
}

TEST(OptimizerStateNames, AreThoseOfParametersThatHaveBeenStepped) {
  EXPECT_TRUE(stepped("sgd", {})->state().empty());
  const auto state = stepped("adam", {{"amsgrad", "true"}})->state();
  EXPECT_EQ(state.size(), 4U * 4U);
  for (const auto* name : {"conv.bias/exp_avg", "conv.bias/exp_avg_sq", "conv.bias/max_exp_avg_sq", "conv.bias/step"}) {
    EXPECT_TRUE(state.contains(name)) << name;
  }
  EXPECT_EQ(state.at("scale/step").item<float>(), 1);
  EXPECT_FALSE(state.contains("frozen/step"));
}

TEST(OptimizerStateErrors, NameTheEntryThatDoesNotFit) {
  const auto adam = stepped("adam", {});
  const auto error_with = [&](auto change) {
    auto state = saved(*adam);
    change(state);
    return error_of([&] { adam->load_state(state); });
  };
  EXPECT_THAT(error_with([](auto& state) { state["conv.bias/exp_avg"] = torch::zeros({9}); }),
              AllOf(HasSubstr("conv.bias/exp_avg is Float [9], expected Float [8]"), HasSubstr("resume with")));
  EXPECT_THAT(error_with([](auto& state) { state["conv.bias/exp_avg"] = torch::zeros({8}, torch::kHalf); }),
              HasSubstr("is Half [8], expected Float [8]"));
  EXPECT_THAT(error_with([](auto& state) { state.erase("conv.bias/step"); }), HasSubstr("conv.bias/step is missing"));
  EXPECT_THAT(error_with([](auto& state) { state["fc.bias/step"] = torch::zeros({}); }),
              HasSubstr("holds fc.bias/step, which this optimizer with these options does not keep"));
  EXPECT_THAT(error_of([&] { stepped("sgd", {})->load_state(stepped("sgd", {{"momentum", "0.9"}})->state()); }),
              HasSubstr("/momentum, which this optimizer with these options does not keep"));
}

TEST(OptimizerStateErrors, LeaveTheStateAsItWas) {
  const auto adam = stepped("adam", {});
  auto state = saved(*adam);
  state["scale/step"] = torch::zeros({2});
  EXPECT_THROW(adam->load_state(state), UserError);
  EXPECT_EQ(adam->state().at("scale/step").item<float>(), 1);
}

TEST(OptimizerOptions, ThatContradictEachOtherAreRefused) {
  const auto error_with = [](const std::string& plugin, const OptionTexts& options) {
    return error_of([&] { make_optimizer(plugin, options); });
  };
  EXPECT_THAT(error_with("sgd", {{"nesterov", "true"}}), HasSubstr("part.nesterov: needs momentum above 0"));
  EXPECT_THAT(error_with("sgd", {{"nesterov", "true"}, {"momentum", "0.9"}, {"dampening", "0.1"}}),
              HasSubstr("nesterov"));
  EXPECT_THAT(error_with("sgd", {{"dampening", "0.1"}}), HasSubstr("dampening: has no effect without momentum"));
  EXPECT_THAT(error_with("sgd", {{"lr", "-1"}}), HasSubstr("test.yaml:4:20: part.lr: expected float >= 0"));
  EXPECT_THAT(error_with("adam", {{"betas", "[0.9]"}}), HasSubstr("part.betas: expected two numbers"));
  EXPECT_THAT(error_with("adamw", {{"betas", "[0.9, 1]"}}), HasSubstr("part.betas: expected two numbers"));
  EXPECT_THAT(error_with("adamw", {{"momentum", "1"}}), HasSubstr("part.momentum: unknown key"));
}

}  // namespace
}  // namespace ddprun
