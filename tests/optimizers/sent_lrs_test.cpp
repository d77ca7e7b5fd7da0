// SPDX-License-Identifier: MIT
// Learning rates that lie in tensors of the device, as steps that are recorded and replayed need them.
#include "optimizers/training.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

class SentLrs : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  using Step = std::function<void(Optimizer& optimizer, int64_t step)>;

  // Steps with a rate that changes each time; calls `send` before each.
  static std::vector<NamedParameter> trained(const Step& send) {
    const auto parameters = copies(make_parameters());
    const auto optimizer = make_optimizer(GetParam().plugin, GetParam().options);
    optimizer->start(parameters);
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

  static void expect_same_bits(const std::vector<NamedParameter>& a, const std::vector<NamedParameter>& b) {
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].value, b[i].value)) << a[i].name;
  }
};

TEST_P(SentLrs, GiveTheBitsOfNumbers) {
  const auto numbers = trained([](Optimizer&, int64_t) {});
  const auto sent = trained([](Optimizer& optimizer, int64_t) { EXPECT_TRUE(optimizer.send_lrs()); });
  expect_same_bits(sent, numbers);
  const auto first = copies(make_parameters());
  EXPECT_FALSE(at::equal(sent[0].value, first[0].value)) << "nothing was trained";
}

TEST_P(SentLrs, ARateThatWasChangedButNotSentCountsAllTheSame) {
  const auto numbers = trained([](Optimizer&, int64_t) {});
  const auto sent = trained([](Optimizer& optimizer, int64_t step) {
    if (step % 2 == 0) optimizer.send_lrs();
  });
  expect_same_bits(sent, numbers);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, SentLrs,
    ::testing::Values(OptimizerCase{"Sgd", "sgd", {{"lr", "0.1"}, {"momentum", "0.9"}}},
                      OptimizerCase{"Adam", "adam", {{"lr", "0.05"}, {"amsgrad", "true"}}},
                      OptimizerCase{"AdamW", "adamw", {{"lr", "0.05"}}},
                      OptimizerCase{"Muon", "muon", {{"lr", "0.02"}, {"normalize", "true"}, {"others_lr", "0.3"}}}),
    [](const auto& item) { return item.param.title; });

TEST(SentLrsOfSgd, AreNotEnoughWhereOverflowsAreReadOnTheHost) {
  const auto optimizer = make_optimizer("sgd", {{"momentum", "0.5"}, {"dampening", "0.3"}});
  optimizer->start(make_parameters());
  EXPECT_FALSE(optimizer->send_lrs());
}

TEST(SentLrsOfMuon, ARateOfZeroMovesNothingNorNormalizes) {
  const auto optimizer = make_optimizer("muon", {{"normalize", "true"}});
  const auto parameters = copies(make_parameters());
  optimizer->start(parameters);
  const auto before = copies(parameters);
  for (auto& group : optimizer->groups()) group.lr = 0;
  set_gradients(parameters, 7);
  optimizer->send_lrs();
  optimizer->step();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(parameters[i].value, before[i].value));
}

}  // namespace
}  // namespace ddprun
