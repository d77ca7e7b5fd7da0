// SPDX-License-Identifier: MIT
#include "comm/replicate.h"

#include "support/ranks.h"
#include "support/toy.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::on_ranks;
using testing::ToyModel;

class TiedModel : public Model {
 public:
  TiedModel() {
    first_ = register_module("first", torch::nn::Linear(4, 4));
    second_ = register_module("second", first_.ptr());
    frozen_ = register_parameter("frozen", torch::ones({2}), /*requires_grad=*/false);
  }
  at::Tensor forward(const at::Tensor& input) override { return second_->forward(first_->forward(input)); }

 private:
  torch::nn::Linear first_{nullptr}, second_{nullptr};
  at::Tensor frozen_;
};

TEST(Replicate, TiedWeightsAreTrainedOnceAndFrozenOnesNotAtAll) {
  const auto model = std::make_shared<TiedModel>();
  std::vector<std::string> names;
  for (const auto& parameter : trainable_parameters(*model)) names.push_back(parameter.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("first.weight", "first.bias"));
}

TEST(Replicate, StateHasEveryName) {
  const auto model = std::make_shared<TiedModel>();
  EXPECT_EQ(state_tensors(*model).size(), 5U);  // two names for each tied tensor, and the frozen one
}

TEST(Replicate, BroadcastMakesAllRanksEqualToRankZero) {
  on_ranks(2, [](Communicator& ranks) {
    const auto model = std::make_shared<ToyModel>();
    model->prepare({.sample_shape = {8}, .classes = 3});
    {
      const torch::NoGradGuard no_gradients;
      for (auto& parameter : model->parameters()) parameter.fill_(1.0 + static_cast<double>(ranks.world().rank));
    }
    broadcast_state(*model, ranks);
    for (const auto& parameter : model->parameters()) EXPECT_TRUE(parameter.eq(1).all().item<bool>());
  });
}

TEST(Replicate, ARankWithAnotherNetworkIsNamedOnEveryRank) {
  std::vector<std::string> messages(2);
  on_ranks(2, [&](Communicator& ranks) {
    const auto model = std::make_shared<ToyModel>();
    model->prepare({.sample_shape = {8}, .classes = 3 + ranks.world().rank});
    try {
      verify_same_model(*model, ranks);
    } catch (const UserError& error) {
      messages[ranks.world().rank] = error.what();
    }
  });
  EXPECT_THAT(messages[0], ::testing::HasSubstr("rank 1 built a different network"));
  EXPECT_THAT(messages[0], ::testing::HasSubstr("output.weight [3, 16]"));
  EXPECT_EQ(messages[0], messages[1]);
}

}  // namespace
}  // namespace ddprun
