// SPDX-License-Identifier: MIT
// The option `groups`; torch_optim_test.cpp has their steps beside those of LibTorch's.
#include "optimizers/training.h"
#include "support/error_of.h"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> names(const ParameterGroup& group) {
  std::vector<std::string> names;
  for (const auto& parameter : group.parameters) names.push_back(parameter.name);
  return names;
}

TEST(Groups, TakeWhatTheyMatchFirstAndLeaveTheRestToTheDefault) {
  const auto optimizer = from_yaml("adamw", kGroups);
  optimizer->start(make_parameters());
  const auto& groups = optimizer->groups();
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_THAT(names(groups[0]), ElementsAre("conv.weight", "frozen"));
  EXPECT_THAT(names(groups[1]), ElementsAre("conv.bias"));
  EXPECT_THAT(names(groups[2]), ElementsAre("late", "scale", "double"));
  EXPECT_EQ(groups[0].lr, 0.05);
  EXPECT_EQ(groups[1].lr, 0.05);
  EXPECT_EQ(groups[2].lr, 0.01);
}

TEST(Groups, MayHoldAllParametersAndTheDefaultNone) {
  const auto optimizer = from_yaml("sgd", "groups: [{parameters: \"*\", lr: 0.5}]");
  const auto parameters = make_parameters();
  optimizer->start(parameters);
  const auto before = parameters[0].value.detach().clone();
  train(*optimizer, parameters, 0, 1);
  EXPECT_THAT(names(optimizer->groups()[0]), IsEmpty());
  EXPECT_TRUE(torch::allclose(parameters[0].value, before - 0.5 * parameters[0].value.grad()));
}

TEST(Groups, AreOthersInAResumedRunWhoseStateGoesByNames) {
  const OptimizerCase before{"", "adamw", kGroups}, after{"", "adamw", "groups: [{parameters: scale, lr: 0.3}]"};
  const auto parameters = make_parameters();
  const auto optimizer = before.started(parameters), regrouped = after.started(copies(parameters));
  train(*optimizer, parameters, 0, 3);
  regrouped->load_state(optimizer->state());
  for (const auto& [name, tensor] : regrouped->state()) EXPECT_TRUE(torch::equal(tensor, optimizer->state().at(name)));
  EXPECT_EQ(regrouped->state().size(), optimizer->state().size());
}

std::string start_error(const std::string& groups) {
  return error_of([&] { from_yaml("adamw", "groups:\n" + groups)->start(make_parameters()); });
}

TEST(GroupErrors, SayAPatternThatMatchesNothing) {
  EXPECT_THAT(start_error("- {parameters: \"discriminator.*\"}"),
              AllOf(StartsWith("mine.yaml:2:3: optimizer.groups: no parameter matches \"discriminator.*\""),
                    HasSubstr("the model has conv.weight, conv.bias, late, frozen, scale, ... (6 in all)")));
  EXPECT_THAT(start_error("- {parameters: [scale, conv.wieght]}"), HasSubstr("did you mean conv.weight?"));
  EXPECT_THAT(start_error("- {parameters: \"conv*\"}\n- {parameters: \"*.bias\", lr: 1}"),
              AllOf(StartsWith("mine.yaml:3:3: optimizer.groups: every parameter that matches \"*.bias\""),
                    HasSubstr("is in an earlier group")));
}

TEST(GroupErrors, SayWhatIsWrongInWhichGroup) {
  const auto error_with = [](const std::string& groups) {
    return error_of([&] { from_yaml("sgd", "groups: " + groups); });
  };
  EXPECT_THAT(
      error_with("\n- {parameters: scale, lr: -1, weight_dacay: 0}"),
      AllOf(HasSubstr("optimizer.groups: group 1 (mine.yaml:2:3): lr: expected float >= 0, found -1\n"),
            HasSubstr("group 1 (mine.yaml:2:3): weight_dacay: unknown key; did you mean weight_decay? known: lr, "
                      "parameters, weight_decay")));
  EXPECT_THAT(error_with("[{lr: 0.1}]"), HasSubstr("group 1 (mine.yaml:1:10): parameters: missing"));
  EXPECT_THAT(error_with("[{parameters: []}]"), HasSubstr("expected a pattern or a list of patterns, found a list"));
  EXPECT_THAT(error_with("[scale]"), HasSubstr("group 1 (mine.yaml:1:10): expected a map of options, found \"scale\""));
  EXPECT_THAT(error_with("{parameters: scale}"),
              StartsWith("mine.yaml:1:9: optimizer.groups: expected a list of groups"));
}

// The scales of pretrained.layer_decay.
TEST(LrScales, SplitEachGroupWhichKeepsItsSettings) {
  const auto optimizer = from_yaml("sgd", kGroups);
  optimizer->set_lr_scales({{"conv.weight", 0.25}, {"conv.bias", 0.5}, {"scale", 1}});
  const auto parameters = make_parameters(), before = copies(parameters);
  optimizer->start(parameters);
  std::vector<std::string> groups;
  for (auto& group : optimizer->groups()) {
    auto text = c10::str(group.lr, " * ", group.lr_scale);
    for (const auto& parameter : group.parameters) text += " " + parameter.name;
    groups.push_back(text);
    group.lr *= group.lr_scale;  // what the runner does
  }
  EXPECT_THAT(groups, ElementsAre("0.05 * 1 frozen", "0.05 * 0.25 conv.weight", "0.05 * 1", "0.05 * 0.5 conv.bias",
                                  "0.01 * 1 late scale double"));
  for (const auto& parameter : parameters) parameter.value.mutable_grad() = torch::ones_like(parameter.value);
  optimizer->step();
  const auto expect_step = [&](size_t i, double lr, double decay) {
    const auto expected = before[i].value - lr * (1 + decay * before[i].value);
    EXPECT_TRUE(torch::allclose(parameters[i].value, expected)) << parameters[i].name;
  };
  expect_step(0, 0.05 * 0.25, 0.1);
  expect_step(1, 0.05 * 0.5, 0);
  expect_step(2, 0.01, 0.1);
}

}  // namespace
}  // namespace ddprun
