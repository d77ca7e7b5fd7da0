// SPDX-License-Identifier: MIT
// The option `groups` against parameter groups of LibTorch's optimizers.
#include "optimizers/from_yaml.h"
#include "optimizers/training.h"
#include "support/error_of.h"

#include <gmock/gmock.h>

#include <functional>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// conv.bias is named twice: the first group has it. "late" has its first gradient in the fifth step.
const std::string kGroups =
    "lr: 0.05\n"
    "weight_decay: 0.1\n"
    "groups:\n"
    "- {parameters: \"*.bias\", weight_decay: 0}\n"
    "- {parameters: [scale, \"doub?e\", late, conv.bias], lr: 0.01}\n";

std::vector<std::vector<at::Tensor>> grouped(const std::vector<NamedParameter>& p) {
  return {{p[0].value, p[3].value}, {p[1].value}, {p[2].value, p[4].value, p[5].value}};
}

template <class TorchOptimizer, class TorchOptions>
std::unique_ptr<torch::optim::Optimizer> grouped_reference(TorchOptions options, const std::vector<NamedParameter>& p) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& tensors : grouped(p)) groups.emplace_back(tensors);
  auto optimizer = std::make_unique<TorchOptimizer>(groups, options);
  // Afterwards: LibTorch 2.15 takes a value that is the default for one that was not given.
  const auto options_of = [&](int group) -> TorchOptions& {
    return static_cast<TorchOptions&>(optimizer->param_groups()[group].options());
  };
  options_of(1).weight_decay(0);
  options_of(2).lr(0.01);
  return optimizer;
}

struct GroupedCase {
  std::string title, plugin, options;
  std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<NamedParameter>&)> reference;
};

void PrintTo(const GroupedCase& item, std::ostream* out) { *out << item.title; }  // GoogleTest's name for this function

std::vector<GroupedCase> grouped_cases() {
  using namespace torch::optim;
  return {{"Sgd", "sgd", "momentum: 0.9\n",
           [](const auto& p) { return grouped_reference<SGD>(SGDOptions(0.05).momentum(0.9).weight_decay(0.1), p); }},
          {"Adam", "adam", "",
           [](const auto& p) { return grouped_reference<Adam>(AdamOptions(0.05).weight_decay(0.1), p); }},
          {"AdamW", "adamw", "amsgrad: true\n", [](const auto& p) {
             return grouped_reference<AdamW>(AdamWOptions(0.05).weight_decay(0.1).amsgrad(true), p);
           }}};
}

class ParameterGroups : public ::testing::TestWithParam<GroupedCase> {
 protected:
  static std::shared_ptr<Optimizer> started(const std::vector<NamedParameter>& parameters) {
    const auto optimizer = from_yaml(GetParam().plugin, GetParam().options + kGroups);
    optimizer->start(parameters);
    return optimizer;
  }
};

TEST_P(ParameterGroups, StepAsThoseOfLibTorch) {
  const auto ours = make_parameters(), theirs = copies(ours);
  const auto optimizer = started(ours);
  const auto reference = GetParam().reference(theirs);
  for (int64_t step = 1; step <= 12; ++step) {
    if (step == 8) {  // what a schedule does
      for (auto& group : optimizer->groups()) group.lr /= 2;
      for (auto& group : reference->param_groups()) group.options().set_lr(group.options().get_lr() / 2);
    }
    set_gradients(ours, step);
    set_gradients(theirs, step);
    optimizer->step();
    reference->step();
    for (size_t i = 0; i < ours.size(); ++i) {
      const double tolerance = ours[i].value.scalar_type() == at::kDouble ? 1e-13 : 2e-6;
      EXPECT_TRUE(torch::allclose(ours[i].value, theirs[i].value, tolerance, tolerance))
          << ours[i].name << " after step " << step;
    }
  }
}

TEST_P(ParameterGroups, ResumeBitForBitAlsoWhereTheyAreOthersThen) {
  const auto parameters = make_parameters();
  const auto optimizer = started(parameters);
  for (int64_t step = 0; step < 3; ++step) {
    set_gradients(parameters, step);
    optimizer->step();
  }
  auto state = optimizer->state();
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  const auto resumed_parameters = copies(parameters);
  const auto resumed = started(resumed_parameters);
  resumed->load_state(state);
  for (int64_t step = 3; step < 9; ++step) {
    for (const auto& [some, one] : {std::pair(&parameters, optimizer), std::pair(&resumed_parameters, resumed)}) {
      set_gradients(*some, step);
      one->step();
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(torch::equal(parameters[i].value, resumed_parameters[i].value)) << parameters[i].name;

  const auto regrouped = from_yaml(GetParam().plugin, GetParam().options + "groups: [{parameters: scale, lr: 0.3}]");
  regrouped->start(copies(parameters));
  regrouped->load_state(state);  // by names, whatever the groups were
  for (const auto& [name, tensor] : regrouped->state()) EXPECT_TRUE(torch::equal(tensor, state.at(name))) << name;
  EXPECT_EQ(regrouped->state().size(), state.size());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ParameterGroups, ::testing::ValuesIn(grouped_cases()),
                         [](const auto& test) { return test.param.title; });

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
  set_gradients(parameters, 0);
  const auto before = parameters[0].value.detach().clone();
  optimizer->step();
  EXPECT_THAT(names(optimizer->groups()[0]), IsEmpty());
  EXPECT_TRUE(torch::allclose(parameters[0].value, before - 0.5 * parameters[0].value.grad()));
}

std::string start_error(const std::string& groups) {
  return error_of([&] { from_yaml("adamw", "groups:\n" + groups)->start(make_parameters()); });
}

TEST(GroupErrors, TellAPatternThatMatchesNothing) {
  EXPECT_THAT(start_error("- {parameters: \"discriminator.*\"}"),
              AllOf(StartsWith("mine.yaml:2:3: optimizer.groups: no parameter matches \"discriminator.*\""),
                    HasSubstr("the model has conv.weight, conv.bias, late, frozen, scale, ... (6 in all)")));
  EXPECT_THAT(start_error("- {parameters: [scale, conv.wieght]}"), HasSubstr("did you mean conv.weight?"));
  EXPECT_THAT(start_error("- {parameters: \"conv*\"}\n- {parameters: \"*.bias\", lr: 1}"),
              AllOf(StartsWith("mine.yaml:3:3: optimizer.groups: every parameter that matches \"*.bias\""),
                    HasSubstr("is in an earlier group")));
}

TEST(GroupErrors, TellWhatIsWrongInWhichGroup) {
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
