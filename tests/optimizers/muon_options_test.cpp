// SPDX-License-Identifier: MIT
// Which parameters are Muon's and which get SGD, and the numbers of both.
#include "optimizers/training.h"
#include "support/error_of.h"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(MuonsOthers, TakeTheStepsOfLibTorchsSgd) {
  const auto ours = make_parameters(), theirs = copies(ours);
  const auto optimizer = from_yaml(
      "muon", "{others: conv.*, others_lr: 0.05, others_momentum: 0.8, others_weight_decay: 0.1, weight_decay: 0.7}");
  optimizer->start(ours);
  std::vector<at::Tensor> others;
  for (size_t i = 0; i < 5; ++i) others.push_back(theirs[i].value);  // all but "double", which is a matrix
  torch::optim::SGD reference(others, torch::optim::SGDOptions(0.05).momentum(0.8).nesterov(true).weight_decay(0.1));
  train(*optimizer, ours, 1, 13);
  train(reference, theirs, 1, 13);
  for (size_t i = 0; i < others.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i].value, others[i], 2e-6, 2e-6)) << ours[i].name;
  EXPECT_FALSE(torch::allclose(ours[5].value, theirs[5].value)) << "the matrix is Muon's";
}

TEST(MuonsGroups, HaveRatesAndDecaysOfTheirOwn) {
  const auto optimizer = from_yaml("muon",
                                   "groups: [{parameters: double, lr: 0.5, weight_decay: 2}]\n"
                                   "others_groups: [{parameters: [\"*.bias\", late], lr: 0.25}]\n");
  const auto parameters = make_parameters();
  optimizer->start(parameters);
  std::vector<std::string> found;
  for (const auto& group : optimizer->groups()) {
    found.push_back(std::to_string(group.lr).substr(0, 4));
    for (const auto& parameter : group.parameters) found.back() += " " + parameter.name;
  }
  EXPECT_THAT(found, ElementsAre("0.02 conv.weight", "0.50 double", "0.01 frozen scale", "0.25 conv.bias late"));
}

TEST(MuonsGroups, StepAtThem) {
  const auto grouped = make_parameters(), alone = copies(grouped);
  const auto optimizer = from_yaml("muon", "groups: [{parameters: double, lr: 0.5, weight_decay: 2}]");
  const auto reference = from_yaml("muon", "{lr: 0.5, weight_decay: 2}");
  optimizer->start(grouped);
  reference->start(alone);
  train(*optimizer, grouped, 0, 3);
  train(*reference, alone, 0, 3);
  EXPECT_TRUE(torch::equal(grouped[5].value, alone[5].value));
  EXPECT_FALSE(torch::allclose(grouped[0].value, alone[0].value)) << "conv.weight is not in the group";
}

TEST(MuonErrors, SayWhoseParametersAPatternIsFor) {
  const auto start_error = [](const std::string& options) {
    return error_of([&] { from_yaml("muon", options)->start(make_parameters()); });
  };
  EXPECT_THAT(start_error("lr: 1\nothers: [\"conv.*\", haed]"),
              AllOf(StartsWith("mine.yaml:2:9: optimizer.others: no parameter matches \"haed\""),
                    HasSubstr("the model has conv.weight, ")));
  EXPECT_EQ(start_error("groups: [{parameters: \"*.bias\"}]"),
            "mine.yaml:1:10: optimizer.groups: no parameter of Muon's matches \"*.bias\"; Muon's are "
            "conv.weight, double");
  EXPECT_EQ(start_error("others: [conv.weight, double]\ngroups: [{parameters: double}]"),
            "mine.yaml:2:10: optimizer.groups: no parameter of Muon's matches \"double\"; Muon's are none");
  EXPECT_THAT(start_error("others_groups: [{parameters: double}]"),
              AllOf(StartsWith("mine.yaml:1:17: optimizer.others_groups: no parameter of the others matches"),
                    HasSubstr("the others are conv.bias, late, frozen, scale")));
}

TEST(MuonErrors, SayWhichOptionIsWrong) {
  const auto error_with = [](const std::string& options) { return error_of([&] { from_yaml("muon", options); }); };
  EXPECT_THAT(error_with("ns_steps: 0"), HasSubstr("mine.yaml:1:11: optimizer.ns_steps: expected int >= 1, found 0"));
  EXPECT_THAT(error_with("precision: fp16"), HasSubstr("expected auto | bf16 | fp32, found \"fp16\""));
  EXPECT_THAT(error_with("others: {a: 1}"), HasSubstr("expected a pattern or a list of patterns, found a map"));
  EXPECT_THAT(error_with("others_groups: [{parameters: a, momentum: 1}]"), HasSubstr("momentum: unknown key"));
  EXPECT_EQ(error_with("others: []"), "");
}

}  // namespace
}  // namespace ddprun
