// SPDX-License-Identifier: MIT
// With trainer.precision bf16_master the optimizers step float32 copies of the weights, as they would step weights of
// float32, in every bit.
#include "sharing/master_weights.h"

#include "optimizers/training.h"
#include "support/error_of.h"
#include "support/toy.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;

constexpr int64_t kEachPartAlone = 1, kAllTogether = int64_t{1} << 24;

const MasterWeights::Start kStart = [](Optimizer& optimizer, std::vector<NamedParameter> parameters) {
  optimizer.start(std::move(parameters));
};

// bfloat16, but for one of float32. "frozen" and "late" are those of set_gradients().
std::vector<NamedParameter> narrow_parameters() {
  torch::manual_seed(2);
  const auto narrow = [](const at::Tensor& value) { return value.to(at::kBFloat16).requires_grad_(); };
  return {{"filter", narrow(torch::randn({8, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast))},
          {"matrix", narrow(torch::randn({40, 10}))},
          {"vector", narrow(torch::randn({97}))},
          {"late", narrow(torch::randn({5}))},
          {"frozen", narrow(torch::randn({4}))},
          {"wide", torch::randn({7}).requires_grad_()}};
}

std::vector<NamedParameter> widened(const std::vector<NamedParameter>& parameters) {
  std::vector<NamedParameter> wide;
  for (const auto& [name, value] : parameters)
    wide.push_back({name, value.detach().to(at::kFloat, false, /*copy=*/true).requires_grad_()});
  return wide;
}

// Gives both the same gradients, as 16 bits have them.
void set_gradients_of_both(const std::vector<NamedParameter>& narrow, const std::vector<NamedParameter>& wide,
                           int64_t step) {
  set_gradients(narrow, step);
  for (size_t i = 0; i < narrow.size(); ++i) {
    const auto& gradient = narrow[i].value.grad();
    wide[i].value.mutable_grad() = gradient.defined() ? gradient.to(at::kFloat, false, /*copy=*/true) : at::Tensor();
  }
}

void expect_rounded(const std::vector<NamedParameter>& narrow, const std::vector<NamedParameter>& wide) {
  for (size_t i = 0; i < narrow.size(); ++i)
    EXPECT_TRUE(at::equal(narrow[i].value, wide[i].value.to(narrow[i].value.scalar_type()))) << narrow[i].name;
}

class StepsByMasters : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(StepsByMasters, AsItStepsWeightsOfFloat32) {
  for (const auto at_once : {kEachPartAlone, kAllTogether}) {
    const auto narrow = narrow_parameters(), wide = widened(narrow);
    MasterWeights masters(GetParam().made(), narrow, kStart, at_once);
    const auto reference = GetParam().started(wide);
    for (int64_t step = 0; step < 8; ++step) {
      for (auto* optimizer : {static_cast<Optimizer*>(&masters), reference.get()})
        for (auto& group : optimizer->groups()) group.lr = 0.1 / static_cast<double>(step + 1);
      set_gradients_of_both(narrow, wide, step);
      const auto skip = torch::full({}, step == 6 ? 1.0F : 0.0F);
      step < 5 ? masters.step() : masters.step_unless(skip);
      step < 5 ? reference->step() : reference->step_unless(skip);
    }
    expect_rounded(narrow, wide);
    for (const auto& [name, value] : wide) {
      const auto stepped = name == "wide" ? narrow.back().value : masters.of(name);
      EXPECT_TRUE(at::equal(stepped, value)) << name << " at once " << at_once;
    }
  }
}

TEST_P(StepsByMasters, ContinuesFromItsState) {
  const auto narrow = narrow_parameters(), wide = widened(narrow);
  auto first = std::make_unique<MasterWeights>(GetParam().made(), narrow, kStart);
  const auto reference = GetParam().started(wide);
  for (int64_t step = 0; step < 3; ++step) {
    set_gradients_of_both(narrow, wide, step);
    first->step();
    reference->step();
  }
  const auto other = copies(narrow);
  MasterWeights second(GetParam().made(), other, kStart);
  second.load_state(first->state());
  for (int64_t step = 3; step < 7; ++step) {
    set_gradients_of_both(other, wide, step);
    second.step();
    reference->step();
  }
  expect_rounded(other, wide);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, StepsByMasters, ::testing::ValuesIn(kOptimizers),
                         [](const auto& test) { return test.param.title; });

// One weight of 1, with a gradient of 1 in each of 64 steps with lr 0.001.
at::Tensor after_small_steps(bool with_masters) {
  const std::vector<NamedParameter> weights{{"w", torch::ones({1}, at::kBFloat16).requires_grad_()}};
  std::shared_ptr<Optimizer> optimizer = from_yaml("sgd", "{lr: 0.001}");
  if (with_masters) {
    optimizer = std::make_shared<MasterWeights>(optimizer, weights, kStart);
  } else {
    optimizer->start(weights);
  }
  for (int step = 0; step < 64; ++step) {
    weights[0].value.mutable_grad() = torch::ones({1}, at::kBFloat16);
    optimizer->step();
  }
  return weights[0].value.detach();
}

TEST(MasterWeights, DoNotLoseStepsThatSixteenBitsDoNotResolve) {
  EXPECT_EQ(after_small_steps(false).item<float>(), 1);
  EXPECT_TRUE(at::equal(after_small_steps(true), torch::full({1}, 0.936).to(at::kBFloat16)));
}

TEST(MasterWeights, AreThereForWhatTheRankSteps) {
  const auto weights = narrow_parameters();
  MasterWeights masters(from_yaml("sgd", "{}"), weights, kStart);
  masters.keep_only([](const std::string& name) { return name == "vector"; });
  EXPECT_THAT(masters.state(), ElementsAre(Key("vector/master_weight")));
  EXPECT_FALSE(masters.of("matrix").defined());
  EXPECT_FALSE(masters.of("wide").defined());
  auto others = masters.state();
  others["matrix/master_weight"] = torch::zeros({40, 10});
  masters.load_state(others);
  EXPECT_THAT(masters.state(), ElementsAre(Key("vector/master_weight")));
}

TEST(MasterWeights, BeginWithTheWeightsWhereAStateHasNone) {
  const auto weights = narrow_parameters();
  MasterWeights masters(from_yaml("sgd", "{lr: 1}"), weights, kStart);
  masters.load_state({});
  const torch::NoGradGuard no_gradients;
  weights[1].value.fill_(3);
  weights[1].value.mutable_grad() = torch::ones({40, 10}, at::kBFloat16);
  masters.step();
  EXPECT_TRUE(at::equal(masters.of("matrix"), torch::full({40, 10}, 2.0)));
}

TEST(MasterWeights, RefuseACopyOfAnotherShape) {
  MasterWeights masters(from_yaml("sgd", "{}"), narrow_parameters(), kStart);
  EXPECT_THAT(error_of([&] { masters.load_state({{"vector/master_weight", torch::zeros({3})}}); }),
              HasSubstr("copy of vector has another shape"));
}

// Its parts lack a parameter, or its state has an entry of the copies' name.
class Careless : public testing::ToySgd {
 public:
  Careless() : ToySgd(0.5) {}
  std::vector<StepPart> step_parts() const override { return {{{"a"}, 1}}; }
};
class Colliding : public testing::ToySgd {
 public:
  Colliding() : ToySgd(0.5) {}
  OptimizerState state() const override { return {{"a/master_weight", torch::ones({1})}}; }
};

std::vector<NamedParameter> two_weights() {
  return {{"a", torch::ones({1}, at::kBFloat16)}, {"b", torch::ones({1}, at::kBFloat16)}};
}

TEST(MasterWeights, StepAllAtOnceWhereThePartsAreNotAll) {
  const auto weights = two_weights();
  MasterWeights masters(std::make_shared<Careless>(), weights, kStart);
  for (const auto& weight : weights) weight.value.mutable_grad() = torch::ones({1}, at::kBFloat16);
  masters.step();
  for (const auto& weight : weights) EXPECT_EQ(weight.value.item<float>(), 0.5F) << weight.name;
}

TEST(MasterWeights, RefuseAnEntryOfTheirNameThatIsAPlugins) {
  const MasterWeights masters(std::make_shared<Colliding>(), two_weights(), kStart);
  EXPECT_THAT(error_of([&] { (void)masters.state(); }), HasSubstr("entry a/master_weight"));
}

TEST(FitToPrecision, TakesTheFloat32NumbersBothWays) {
  testing::ToyModel model;
  model.prepare({.sample_shape = {8}, .classes = 3});
  const auto exact = torch::rand({16, 8});
  Checkpoint checkpoint{.model = {{"hidden.weight", exact.clone()}, {"output.bias", torch::ones({3}, at::kBFloat16)}}};
  fit_to_precision(checkpoint, model, PrecisionMode::kBf16Master);
  EXPECT_THAT(checkpoint.optimizer, ElementsAre(Key("hidden.weight/master_weight")));
  checkpoint.model["hidden.weight"] = exact.to(at::kBFloat16);
  fit_to_precision(checkpoint, model, PrecisionMode::kFp32);
  EXPECT_TRUE(checkpoint.optimizer.empty());
  EXPECT_TRUE(at::equal(checkpoint.model["hidden.weight"], exact));
}

}  // namespace
}  // namespace ddprun
