// SPDX-License-Identifier: MIT
#include "comm/gradient_reducer.h"

#include "comm/replicate.h"
#include "support/error_of.h"
#include "support/ranks.h"
#include "support/toy.h"

#include <set>

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

// Numbers of all sizes, in two parts of a step, of which the second is exchanged; denormal ones have no exact half.
std::vector<NamedParameter> numbers_of_all_sizes() {
  std::vector<NamedParameter> parameters;
  for (const int64_t size : {1000, 1, 300'000, 7})
    parameters.push_back({"p" + std::to_string(parameters.size()), torch::zeros({size}).requires_grad_()});
  return parameters;
}

void backward_of(GradientReducer& reducer, const std::vector<NamedParameter>& parameters, int64_t rank, int64_t step,
                 bool whole) {
  for (const auto& parameter : parameters) parameter.value.mutable_grad().reset();
  reducer.start(0, whole);
  reducer.before_forward();
  for (const bool last : {false, true}) {
    auto loss = torch::zeros({});
    for (const auto& [name, value] : parameters) {
      const auto count = torch::arange(value.numel()) + static_cast<double>(17 * rank + 3 * step + last);
      loss = loss + (value * torch::sin(count) * torch::pow(10, torch::fmod(count, 83) - 44)).sum();
    }
    last ? reducer.backward(loss) : reducer.accumulate(loss);
  }
}

TEST(GradientReducer, AnOwnerGetsTheBitsThatAnAllReduceGives) {
  const std::vector<int64_t> owners{1, 0, 0, 1};
  on_ranks(2, [&](Communicator& ranks) {
    const auto all = numbers_of_all_sizes(), own = numbers_of_all_sizes();
    GradientReducer reducer(all, ranks), to_owners(own, ranks, {.owners = owners});
    const auto rank = ranks.world().rank;
    for (int64_t step = 0; step < 4; ++step) {
      const bool whole = step == 2;
      backward_of(reducer, all, rank, step, false);
      backward_of(to_owners, own, rank, step, whole);
      for (size_t i = 0; i < own.size(); ++i) {
        const bool is_mine = whole || owners[i] == rank;
        EXPECT_EQ(torch::equal(own[i].value.grad(), all[i].value.grad()), is_mine)
            << own[i].name << " in step " << step;
      }
    }
  });
}

TEST(GradientReducer, ARankThatOwnsNothingGetsNothing) {
  on_ranks(2, [&](Communicator& ranks) {
    const auto own = numbers_of_all_sizes();
    GradientReducer to_owners(own, ranks, {.owners = {1, 1, 1, 1}});
    for (int64_t step = 0; step < 3; ++step) backward_of(to_owners, own, ranks.world().rank, step, false);
    EXPECT_TRUE(own[3].value.grad().defined());
  });
}

TEST(GradientReducer, ARankThatLeavesBetweenTwoStepsIsACommunicationError) {
  EXPECT_THROW(on_ranks(2,
                        [](Communicator& ranks) {
                          const auto parameter = torch::ones({2}, torch::requires_grad());
                          GradientReducer reducer({{"parameter", parameter}}, ranks);
                          for (int step = 0; step < 2; ++step) {
                            if (step == 1 && ranks.world().rank == 0) return;
                            reducer.before_forward();  // the second time it waits for rank 0's order of the buckets
                            reducer.backward(parameter.sum());
                          }
                        }),
               CommunicationError);
}

TEST(GradientReducer, AParameterWithoutGradientIsNamed) {
  std::vector<std::string> messages(2);
  on_ranks(2, [&](Communicator& ranks) {
    const auto used = torch::ones({2}, torch::requires_grad()), unused = torch::ones({2}, torch::requires_grad());
    GradientReducer reducer({{"used.weight", used}, {"unused.weight", unused}}, ranks);
    reducer.before_forward();
    messages[ranks.world().rank] = error_of([&] { reducer.backward(used.sum()); });
  });
  EXPECT_TRUE(says(messages[0], "unused.weight"));
  EXPECT_EQ(messages[0].find(" used.weight"), std::string::npos);
}

// Three weights; each step uses the first and one of the others, or on one rank the second and on the other the third.
at::Tensor loss_of(const std::vector<NamedParameter>& weights, size_t used) {
  return (weights[0].value * weights[used].value).sum();
}

std::vector<NamedParameter> three_weights() {
  const auto weight = [](double value) { return torch::full({2}, value, torch::requires_grad()); };
  return {{"always", weight(1)}, {"first", weight(2)}, {"second", weight(3)}};
}

void begin(GradientReducer& reducer, const std::vector<NamedParameter>& weights) {
  for (const auto& weight : weights) {
    if (weight.value.grad().defined()) weight.value.grad().zero_();
  }
  reducer.before_forward();
}

TEST(GradientReducer, ParametersThatAStepLeavesOutAreFoundOnEveryRank) {
  on_ranks(2, [&](Communicator& ranks) {
    const auto weights = three_weights();
    GradientReducer reducer(weights, ranks, {.find_unused_parameters = true});
    const auto rank = static_cast<size_t>(ranks.world().rank);
    const auto step = [&](size_t used) {
      begin(reducer, weights);
      reducer.backward(loss_of(weights, used));
    };
    for (const size_t used : {1, 2}) {
      step(used);
      EXPECT_TRUE(torch::equal(weights[used].value.grad(), torch::ones({2})));
    }
    step(1 + rank);  // each rank uses another one: half of the one rank's gradient is the mean
    EXPECT_TRUE(torch::equal(weights[1].value.grad(), torch::full({2}, 0.5)));
    EXPECT_TRUE(torch::equal(weights[2].value.grad(), torch::full({2}, 0.5)));
  });
}

TEST(GradientReducer, AStaticGraphMayNeverUseAParameter) {
  on_ranks(3, [&](Communicator& ranks) {
    const auto weights = three_weights();
    GradientReducer reducer(weights, ranks, {.static_graph = true});
    for (int step = 0; step < 4; ++step) {
      begin(reducer, weights);
      reducer.backward(loss_of(weights, 1) * static_cast<double>(1 + ranks.world().rank));
      EXPECT_TRUE(torch::allclose(weights[1].value.grad(), torch::full({2}, 2.0))) << "step " << step;
    }
  });
}

TEST(GradientReducer, PassesBeforeTheLastAddUpOnEachRank) {
  on_ranks(2, [&](Communicator& ranks) {
    const auto weights = three_weights();
    const std::vector<NamedParameter> used{weights[0], weights[1]};
    GradientReducer reducer(used, ranks);
    for (int step = 0; step < 3; ++step) {
      begin(reducer, used);
      loss_of(used, 1).backward();
      (loss_of(used, 1) * static_cast<double>(ranks.world().rank)).backward();
      reducer.backward(loss_of(used, 1));
      EXPECT_TRUE(torch::allclose(used[1].value.grad(), torch::full({2}, 2.5))) << "step " << step;
    }
  });
}

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
  std::set<std::string> names;
  for (const auto& parameter : trainable_parameters(*model)) EXPECT_TRUE(names.insert(parameter.name).second);
  EXPECT_EQ(names, (std::set<std::string>{"first.bias", "first.weight"}));
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
    messages[ranks.world().rank] = error_of([&] { verify_same_model(*model, ranks); });
  });
  EXPECT_TRUE(says(messages[0], "rank 1 built a different network ... output.weight [3, 16]"));
  EXPECT_EQ(messages[0], messages[1]);
}

}  // namespace
}  // namespace ddprun
