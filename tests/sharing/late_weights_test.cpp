// SPDX-License-Identifier: MIT
#include "sharing/late_weights.h"

#include "plugin_host/plugin_call.h"
#include "support/error_of.h"

#include <ddprun/arriving_weights.h>
#include <ddprun/model.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two layers, of which it may forget to wait for one.
class Layers : public Model {
 public:
  explicit Layers(bool forgets, bool says_so = true) : forgets_(forgets), says_so_(says_so) {
    first_ = register_module("first", torch::nn::Linear(3, 4));
    second_ = register_module("second", torch::nn::Linear(4, 2));
  }

  at::Tensor forward(const at::Tensor& input) override {
    wait_for_weights(*first_);
    const auto x = torch::relu(first_(input));
    if (!forgets_) wait_for_weights(*second_);
    return second_(x);
  }

  bool waits_for_weights() const override { return says_so_; }

  at::Tensor loss() { return forward(torch::ones({2, 3})).mean(); }

 private:
  bool forgets_, says_so_;
  torch::nn::Linear first_{nullptr}, second_{nullptr};
};

std::string mistake_of(Layers& model) {
  return error_of<PluginMistake>([&] { require_waits(model, [&] { return model.loss(); }); });
}

TEST(LateWeights, AWeightThatIsReadTooEarlyIsNamed) {
  Layers forgetful(true);
  EXPECT_THAT(mistake_of(forgetful), HasSubstr("model: step() reads second.weight before it waits for it"));
}

TEST(LateWeights, WeightsAreAsBefore) {
  for (const bool forgets : {false, true}) {
    Layers model(forgets);
    std::vector<std::pair<const void*, at::Tensor>> before;
    for (const auto& weight : model.parameters()) before.emplace_back(weight.const_data_ptr(), weight.clone());
    const auto loss = model.loss();
    mistake_of(model);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(model.parameters()[i].const_data_ptr(), before[i].first);
      EXPECT_TRUE(torch::equal(model.parameters()[i], before[i].second));
    }
    EXPECT_TRUE(torch::equal(model.loss(), loss));
  }
}

TEST(LateWeights, OneThatWaitsOrDoesNotClaimItIsRight) {
  Layers waits(false), makes_no_claim(true, false);
  EXPECT_THAT(mistake_of(waits), IsEmpty());
  EXPECT_THAT(mistake_of(makes_no_claim), IsEmpty());
}

TEST(LateWeights, OfALossThatIsNanAnywayNothingIsSaid) {
  Layers model(true);
  EXPECT_THAT(error_of<PluginMistake>([&] { require_waits(model, [&] { return model.loss() * NAN; }); }), IsEmpty());
}

}  // namespace
}  // namespace ddprun
