// SPDX-License-Identifier: MIT
// What an optimizer keeps between steps, and learning rates that lie in tensors of the device, as steps that are
// captured and replayed need them.
#include "optimizers/training.h"
#include "support/error_of.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

OptimizerState saved(const Optimizer& optimizer) {
  auto state = optimizer.state();
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  return state;
}

class EachOptimizer : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(EachOptimizer, ResumedStepsAreBitIdenticalToThoseNeverInterruptedAndTheStateIsCopied) {
  for (const int64_t interruption : {0, 1, 4, 7}) {  // "late" gets its first gradient at step 5
    SCOPED_TRACE(interruption);
    const auto parameters = make_parameters();
    const auto optimizer = GetParam().started(parameters);
    train(*optimizer, parameters, 0, interruption);
    const auto state = saved(*optimizer), before = saved(*optimizer);
    const auto resumed_parameters = copies(parameters);
    train(*optimizer, parameters, interruption, 12);

    const auto resumed = GetParam().started(resumed_parameters);
    resumed->load_state(state);
    train(*resumed, resumed_parameters, interruption, 12);
    expect_same_bits(parameters, resumed_parameters);
    for (const auto& [name, tensor] : before) EXPECT_TRUE(torch::equal(tensor, state.at(name))) << name;
  }
}

TEST_P(EachOptimizer, AStepThatOverflowedIsAsIfItHadNotBeen) {
  const auto parameters = make_parameters(), skipped_parameters = copies(parameters);
  const auto optimizer = GetParam().started(parameters), skipping = GetParam().started(skipped_parameters);
  for (int64_t step = 0; step < 8; ++step) {
    train(*optimizer, parameters, step, step + 1);
    set_gradients(skipped_parameters, step);
    if (step == 0 || step == 3) {
      for (const auto& [name, value] : skipped_parameters)
        if (value.grad().defined()) value.mutable_grad().fill_(std::numeric_limits<float>::infinity());
      skipping->step_unless(torch::full({}, step + 1.0));
    }
    set_gradients(skipped_parameters, step);
    skipping->step_unless(torch::zeros({}));
  }
  expect_same_bits(parameters, skipped_parameters);
}

// Steps with a rate that changes each time; calls `send` before each.
std::vector<NamedParameter> trained(const OptimizerCase& item,
                                    const std::function<void(Optimizer&, int64_t step)>& send) {
  const auto parameters = copies(make_parameters());
  const auto optimizer = item.started(parameters);
  std::vector<double> rates;
  for (const auto& group : optimizer->groups()) rates.push_back(group.lr);
  for (int64_t step = 0; step < 8; ++step) {
    for (size_t i = 0; i < rates.size(); ++i)
      optimizer->groups()[i].lr = rates[i] / (3 * static_cast<double>(step) + 1);
    set_gradients(parameters, step);
    send(*optimizer, step);
    if (step % 3 == 2) {
      optimizer->step_unless(torch::full({}, step == 2 ? 1.0F : 0.0F));
    } else {
      optimizer->step();
    }
  }
  return parameters;
}

TEST_P(EachOptimizer, RatesThatWereSentGiveTheBitsOfNumbersAndOneThatWasNotCountsAllTheSame) {
  const auto numbers = trained(GetParam(), [](Optimizer&, int64_t) {});
  EXPECT_FALSE(at::equal(numbers[0].value, make_parameters()[0].value)) << "nothing was trained";
  for (const int64_t every : {1, 2}) {
    expect_same_bits(trained(GetParam(),
                             [every](Optimizer& optimizer, int64_t step) {
                               if (step % every != 0) return;
                               const bool reads_overflows = GetParam().title == "SgdWithDampening";  // on the host
                               EXPECT_NE(optimizer.send_lrs(), reads_overflows);
                             }),
                     numbers);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EachOptimizer, ::testing::ValuesIn(kOptimizers),
                         [](const auto& test) { return test.param.title; });
INSTANTIATE_TEST_SUITE_P(InGroups, EachOptimizer,
                         ::testing::Values(OptimizerCase{"Sgd", "sgd", "momentum: 0.9\n" + kGroups},
                                           OptimizerCase{"Adam", "adam", kGroups},
                                           OptimizerCase{"AdamW", "adamw", "amsgrad: true\n" + kGroups}),
                         [](const auto& test) { return test.param.title; });

TEST(SentLrs, OfZeroMoveNothingNorNormalize) {
  const auto parameters = make_parameters(), before = copies(parameters);
  const auto optimizer = kOptimizers.back().started(parameters);
  for (auto& group : optimizer->groups()) group.lr = 0;
  optimizer->send_lrs();
  train(*optimizer, parameters, 7, 8);
  expect_same_bits(parameters, before);
}

std::shared_ptr<Optimizer> stepped(const std::string& plugin, const std::string& options) {
  const auto parameters = make_parameters();
  const auto optimizer = OptimizerCase{"", plugin, options}.started(parameters);
  train(*optimizer, parameters, 0, 1);
  return optimizer;
}

TEST(OptimizerStateNames, AreThoseOfParametersThatHaveBeenStepped) {
  EXPECT_TRUE(stepped("sgd", "{}")->state().empty());
  const auto state = stepped("adam", "{amsgrad: true}")->state();
  EXPECT_EQ(state.size(), 4U * 4U);
  for (const auto* name : {"conv.bias/exp_avg", "conv.bias/exp_avg_sq", "conv.bias/max_exp_avg_sq", "conv.bias/step"}) {
    EXPECT_TRUE(state.contains(name)) << name;
  }
  EXPECT_EQ(state.at("scale/step").item<float>(), 1);
  EXPECT_FALSE(state.contains("frozen/step"));
}

TEST(OptimizerStateErrors, NameTheEntryThatDoesNotFitAndLeaveTheStateAsItWas) {
  const auto adam = stepped("adam", "{}");
  const auto exp_avg = [](at::IntArrayRef size, at::ScalarType type = at::kFloat) {
    return [=, size = size.vec()](OptimizerState& state) { state["conv.bias/exp_avg"] = torch::zeros(size, type); };
  };
  const std::vector<std::pair<std::function<void(OptimizerState&)>, const char*>> flaws{
      {exp_avg({9}), "conv.bias/exp_avg is Float [9], expected Float [8]; resume with"},
      {exp_avg({8}, at::kHalf), "is Half [8], expected Float [8]"},
      {[](auto& state) { state.erase("conv.bias/step"); }, "conv.bias/step is missing"},
      {[](auto& state) { state["scale/step"] = torch::zeros({2}); }, "scale/step is Float [2]"},
      {[](auto& state) { state["fc.bias/step"] = torch::zeros({}); },
       "holds fc.bias/step, which this optimizer with these options does not keep"}};
  for (const auto& [change, words] : flaws) {
    auto state = saved(*adam);
    change(state);
    EXPECT_THAT(error_of([&] { adam->load_state(state); }), HasSubstr(words));
    EXPECT_EQ(adam->state().at("scale/step").item<float>(), 1) << words;
  }
  EXPECT_THAT(error_of([&] { stepped("sgd", "{}")->load_state(stepped("sgd", "{momentum: 0.9}")->state()); }),
              HasSubstr("/momentum, which this optimizer with these options does not keep"));
}

TEST(OptimizerOptions, ThatContradictEachOtherAreRefused) {
  const std::vector<OptimizerCase> refused{{"optimizer.nesterov: needs momentum above 0", "sgd", "{nesterov: true}"},
                                           {"nesterov", "sgd", "{nesterov: true, momentum: 0.9, dampening: 0.1}"},
                                           {"dampening: has no effect without momentum", "sgd", "{dampening: 0.1}"},
                                           {"mine.yaml:1:6: optimizer.lr: expected float >= 0", "sgd", "{lr: -1}"},
                                           {"optimizer.betas: expected two numbers", "adam", "{betas: [0.9]}"},
                                           {"optimizer.betas: expected two numbers", "adamw", "{betas: [0.9, 1]}"},
                                           {"optimizer.momentum: unknown key", "adamw", "{momentum: 1}"}};
  for (const auto& item : refused) EXPECT_THAT(error_of([&] { item.made(); }), HasSubstr(item.title)) << item.options;
}

}  // namespace
}  // namespace ddprun
