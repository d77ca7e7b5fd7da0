// SPDX-License-Identifier: MIT
#include "dist/gradient_reducer.h"

#include "dist/replicate.h"
#include "support/ranks.h"
#include "support/toy.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::on_ranks;
using testing::ToyModel;

std::shared_ptr<ToyModel> toy_model() {
  torch::manual_seed(7);
  auto model = std::make_shared<ToyModel>();
  model->prepare({.sample_shape = {8}, .classes = 3});
  return model;
}

// A batch for one rank in one step.
at::Tensor input_of(int64_t rank, int64_t step) {
  return torch::linspace(-1, 1, 8).repeat({4, 1}) * static_cast<double>(1 + rank + 10 * step);
}

std::vector<at::Tensor> gradients(const Model& model) {
  std::vector<at::Tensor> result;
  for (const auto& parameter : model.parameters()) result.push_back(parameter.grad().clone());
  return result;
}

// The mean over the ranks, computed without the reducer.
std::vector<at::Tensor> expected_gradients(int64_t ranks, int64_t step) {
  const auto model = toy_model();
  at::Tensor loss = torch::zeros({});
  for (int64_t rank = 0; rank < ranks; ++rank) {
    loss = loss + model->forward(input_of(rank, step)).pow(2).mean() / static_cast<double>(ranks);
  }
  loss.backward();
  return gradients(*model);
}

class GradientReducerRanks : public ::testing::TestWithParam<int64_t> {};

TEST_P(GradientReducerRanks, GradientsAreTheMeanOverTheRanksInEveryStep) {
  const auto model_lock = std::make_shared<std::mutex>();  // the seed is the process's
  on_ranks(GetParam(), [&](Communicator& ranks) {
    const auto model = [&] {
      std::scoped_lock lock(*model_lock);
      return toy_model();
    }();
    GradientReducer reducer(trainable_parameters(*model), ranks);
    for (int64_t step = 0; step < 4; ++step) {
      for (auto& parameter : model->parameters()) {
        if (parameter.grad().defined()) parameter.mutable_grad().zero_();
      }
      reducer.before_forward();
      const auto loss = model->forward(input_of(ranks.world().rank, step)).pow(2).mean();
      reducer.backward(loss);
      const auto mine = gradients(*model);
      std::scoped_lock lock(*model_lock);
      const auto expected = expected_gradients(GetParam(), step);
      for (size_t i = 0; i < mine.size(); ++i) {
        EXPECT_TRUE(torch::allclose(mine[i], expected[i], 1e-5, 1e-6)) << "step " << step << ", parameter " << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, GradientReducerRanks, ::testing::Values(2, 3, 4));

TEST(GradientReducer, AParameterWithoutGradientIsNamed) {
  std::string message;
  on_ranks(2, [&](Communicator& ranks) {
    const auto used = torch::ones({2}, torch::requires_grad());
    const auto unused = torch::ones({2}, torch::requires_grad());
    GradientReducer reducer({{"used.weight", used}, {"unused.weight", unused}}, ranks);
    reducer.before_forward();
    const auto loss = used.sum();
    try {
      reducer.backward(loss);
    } catch (const UserError& error) {
      if (ranks.world().rank == 0) message = error.what();
    }
  });
  EXPECT_THAT(message, ::testing::HasSubstr("unused.weight"));
  EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr(" used.weight")));
}

}  // namespace
}  // namespace ddprun
