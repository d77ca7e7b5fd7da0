// SPDX-License-Identifier: MIT
// Ranks that share the optimizer train as each with all of it would, in every bit.
#include "sharing/optimizer_share.h"

#include "plugin_host/plugin_call.h"
#include "support/toy_run.h"
#include "weights/freezing_config.h"

#include <ddprun/arriving_weights.h>
#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <memory>

namespace ddprun::testing {
namespace {

using ::testing::HasSubstr;

const Trains kAllTrain = [](const std::string&) { return true; };

std::vector<NamedParameter> parameters_of(const std::vector<int64_t>& sizes) {
  std::vector<NamedParameter> parameters;
  for (const auto size : sizes)
    parameters.push_back({"p" + std::to_string(parameters.size()), torch::zeros({size}).requires_grad_()});
  return parameters;
}

// Its parts are given.
class Parted : public ToySgd {
 public:
  Parted(const std::vector<int64_t>& sizes, std::vector<StepPart> parts) : ToySgd(0.1), parts_(std::move(parts)) {
    start(parameters_of(sizes));
  }
  std::vector<StepPart> step_parts() const override { return parts_; }

 private:
  std::vector<StepPart> parts_;
};

ToySgd started(const std::vector<int64_t>& sizes) {
  ToySgd optimizer(0.1);
  optimizer.start(parameters_of(sizes));
  return optimizer;
}

TEST(DealOut, GivesEachRankItsShareOfTheNumbers) {
  const auto deal = deal_out(started({100, 10, 40, 30, 20, 90, 10}), 3, kAllTrain);
  EXPECT_EQ(deal.numbers, (std::vector<int64_t>{100, 100, 100}));
  EXPECT_DOUBLE_EQ(deal.largest(), 1.0 / 3);
  EXPECT_EQ(deal.owners.size(), 7U);
}

TEST(DealOut, WeighsCostAndNumbersAlike) {
  const Parted optimizer({8, 8, 8, 8}, {{{"p0"}, 1000}, {{"p1"}, 1000}, {{"p2"}, 0}, {{"p3"}, 0}});
  const auto deal = deal_out(optimizer, 2, kAllTrain);
  EXPECT_NE(deal.owners.at("p0"), deal.owners.at("p1"));
  EXPECT_EQ(deal.numbers, (std::vector<int64_t>{16, 16}));
}

TEST(DealOut, KeepsThePartsOfAStepTogether) {
  const Parted optimizer({5, 5, 5}, {{{"p0", "p2"}, 1}, {{"p1"}, 1}});
  const auto deal = deal_out(optimizer, 2, kAllTrain);
  EXPECT_EQ(deal.owners.at("p0"), deal.owners.at("p2"));
  EXPECT_NE(deal.owners.at("p0"), deal.owners.at("p1"));
}

TEST(DealOut, WhatNeverTrainsCostsNothing) {
  const auto deal = deal_out(started({1000, 10, 10}), 2, [](const std::string& name) { return name != "p0"; });
  EXPECT_EQ(deal.numbers, (std::vector<int64_t>{10, 10}));
}

TEST(DealOut, ThereMayBeMoreRanksThanParameters) {
  const auto deal = deal_out(started({3}), 4, kAllTrain);
  EXPECT_EQ(deal.numbers, (std::vector<int64_t>{3, 0, 0, 0}));
}

TEST(PartsToShare, RefusesAStepThatNeedsAllParametersAtOnce) {
  EXPECT_THAT(error_of([] { parts_to_share(Parted({1}, {})); }), HasSubstr("trainer.shard_optimizer: "));
}

TEST(PartsToShare, RefusesPartsThatAreNotAllParametersOnce) {
  const auto mistake = [](std::vector<StepPart> parts) {
    return error_of<PluginMistake>([&] { parts_to_share(Parted({1, 1}, std::move(parts))); });
  };
  EXPECT_THAT(mistake({{{"p0"}, 1}}), HasSubstr("step_parts() lacks p1"));
  EXPECT_THAT(mistake({{{"p0", "p1"}, 1}, {{"p0"}, 1}}), HasSubstr("step_parts() has p0 twice"));
  EXPECT_THAT(mistake({{{"p0", "p1"}, 1}, {{"p2"}, 1}}), HasSubstr("p2"));
  EXPECT_THAT(mistake({{{"p0", "p1"}, std::nan("")}}), HasSubstr("a cost of nan"));
  EXPECT_THAT(mistake({{{"p0", "p1"}, -1}}), HasSubstr("a cost of -1"));
}

// Costs that depend on the rank, as those of a plugin that measures them.
TEST(OptimizerShare, IsDealtOutByTheFirstRank) {
  on_ranks(2, [](Communicator& communicator) {
    const bool is_first = communicator.world().rank == 0;
    const double first = is_first ? 9 : 1, second = is_first ? 3 : 9;
    const Parted optimizer({4, 4, 4, 4}, {{{"p0"}, first}, {{"p1"}, second}, {{"p2"}, 3}, {{"p3"}, 3}});
    const OptimizerShare share(optimizer, communicator, kAllTrain);
    EXPECT_EQ(share.is_own("p0"), is_first);
    for (const auto* other : {"p1", "p2"}) EXPECT_EQ(share.is_own(other), !is_first) << other;
  });
}

// Several types and layouts, more than a piece, and nothing.
std::vector<NamedParameter> weights_of_rank(int64_t rank) {
  const auto numbers = torch::arange(240, torch::kFloat) + 1000 * rank;
  return {{"large", torch::full({3 << 19}, rank)},
          {"half", torch::full({7, 3}, 0.5 + static_cast<double>(rank), torch::kHalf)},
          {"channels_last", numbers.view({2, 3, 5, 8}).contiguous(at::MemoryFormat::ChannelsLast)},
          {"scalar", torch::full({}, 5 + rank)},
          {"gaps", numbers.slice(0, 0, 240, 3)},
          {"large gaps", torch::full({3 << 19, 2}, rank).select(1, 0)},
          {"strides", numbers.view({20, 12}).t()},
          {"empty", torch::zeros({0})}};
}

TEST(OptimizerShare, SpreadsTheWeightsOfEachRankToAll) {
  on_ranks(3, [](Communicator& communicator) {
    const auto rank = communicator.world().rank;
    const auto weights = weights_of_rank(rank);
    ToySgd optimizer(0.1);
    optimizer.start(weights);
    const OptimizerShare share(optimizer, communicator, kAllTrain);
    const auto deal = deal_out(optimizer, 3, kAllTrain);
    share.spread(weights);
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto& [name, value] = weights[i];
      const auto owner = deal.owners.at(name);
      EXPECT_EQ(share.is_own(name), owner == rank);
      EXPECT_TRUE(torch::equal(value, weights_of_rank(owner)[i].value)) << name << " on rank " << rank;
    }
  });
}

// Rank 1 begins only once rank 0 has what it needs without it.
TEST(OptimizerShare, ARankWaitsForAWeightOnlyUntilThatIsThere) {
  std::promise<void> first_is_done;
  on_ranks(2, [&](Communicator& communicator) {
    const auto rank = communicator.world().rank;
    const auto weights = weights_of_rank(rank);
    ToySgd optimizer(0.1);
    optimizer.start(weights);
    const OptimizerShare share(optimizer, communicator, kAllTrain);
    if (rank == 1) first_is_done.get_future().wait();
    const auto arriving = share.start_spreading(weights);
    const ArrivingWeightsScope scope(*arriving);
    EXPECT_TRUE(weights_are_arriving());
    for (const bool own : {true, false}) {
      for (size_t i = 0; i < weights.size(); ++i) {
        const auto& [name, value] = weights[i];
        if (share.is_own(name) != own) continue;
        wait_for_weight(value);
        EXPECT_TRUE(torch::equal(value, weights_of_rank(own ? rank : 1 - rank)[i].value)) << name;
      }
      if (own && rank == 0) first_is_done.set_value();
    }
    arriving->wait_for_all();
  });
  EXPECT_FALSE(weights_are_arriving());
}

TEST(OptimizerShare, ARankHasTheGradientsAndTheStateOfItsParameters) {
  on_ranks(2, [](Communicator& communicator) {
    const std::vector<NamedParameter> parameters{{"a/b", torch::zeros({2})}, {"a", torch::zeros({2})}};
    ToySgd optimizer(0.1);
    optimizer.start(parameters);
    const OptimizerShare share(optimizer, communicator, kAllTrain);
    for (const auto& parameter : parameters) parameter.value.mutable_grad() = torch::ones({2});
    share.drop_others_gradients(parameters);
    const OptimizerState whole{{"a/b/momentum", torch::ones({2})}, {"a/momentum", torch::ones({2})}, {"odd", {}}};
    const auto own = share.own(whole);
    for (const auto& [name, value] : parameters) {
      EXPECT_EQ(value.grad().defined(), share.is_own(name)) << name;
      EXPECT_EQ(own.contains(name + "/momentum"), share.is_own(name)) << name;
    }
    EXPECT_EQ(own.size(), 2U);
    EXPECT_TRUE(own.contains("odd"));
    EXPECT_EQ(share.own(parameters).size(), 1U);
  });
}

TEST(OptimizerShare, OfOneRankIsAll) {
  Communicator alone({});
  const OptimizerShare share(started({2, 3}), alone, kAllTrain);
  EXPECT_FALSE(share.is_shared());
  EXPECT_TRUE(share.is_own("p1"));
  EXPECT_THAT(share.text(), HasSubstr("a single worker"));
}

// Reads the second layer's weights only once they have arrived.
class WaitingToyModel : public Model {
 public:
  void prepare(const DataSpec& data) override {
    hidden_ = register_module("hidden", torch::nn::Linear(data.sample_shape.at(0), 16));
    output_ = register_module("output", torch::nn::Linear(16, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    wait_for_weight(hidden_->weight);
    const auto product = at::matmul(input, hidden_->weight.t());
    wait_for_weight(hidden_->bias);
    const auto hidden = torch::tanh(product + hidden_->bias);
    wait_for_weights(*output_);
    return output_(hidden);
  }

  bool waits_for_weights() const override { return true; }

 private:
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

struct Variant {
  std::string title;
  std::function<void(ToyRun& run)> change;
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.title; }

class SharedTraining : public ::testing::TestWithParam<Variant> {};

TEST_P(SharedTraining, HasTheBitsOfOneThatIsNot) {
  ToyRun run;
  run.experiment.trainer = {.max_epochs = 2, .global_batch = 12, .log_every = 4};
  run.experiment.checkpoint.every = {.steps = 4};
  GetParam().change(run);
  for (const int64_t ranks : {1, 2, 3, 4}) {
    SCOPED_TRACE(ranks);
    run.ranks = ranks;
    run.experiment.trainer.shard_optimizer = false;
    const auto whole = train_toy(run);
    run.experiment.trainer.shard_optimizer = true;
    const auto shared = train_toy(run);
    for (const auto* file : {"model", "optimizer", "ema"}) EXPECT_EQ(kept_bytes(shared, file), kept_bytes(whole, file));
    EXPECT_EQ(texts_of(shared.rows), texts_of(whole.rows));
    for (const auto& weights : shared.weights) EXPECT_TRUE(same_bits(weights, whole.weights[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SharedTraining,
    ::testing::Values(
        Variant{"plain", [](ToyRun&) {}},
        Variant{"waiting", [](ToyRun& run) { run.make_model = [] { return std::make_shared<WaitingToyModel>(); }; }},
        Variant{"averaged", [](ToyRun& run) { run.experiment.trainer.ema_decay = 0.9; }},
        Variant{"clipped", [](ToyRun& run) { run.experiment.trainer.clip_norm = 0.3; }},
        Variant{"accumulated", [](ToyRun& run) { run.experiment.trainer.micro_batch = 2; }},
        Variant{"found", [](ToyRun& run) { run.experiment.trainer.micro_batch = TrainerConfig::kAutoMicroBatch; }},
        Variant{"skipping", [](ToyRun& run) { run.experiment.trainer.on_nonfinite = OnNonfinite::kSkip; }},
        Variant{"bf16", [](ToyRun& run) { run.experiment.trainer.precision = PrecisionMode::kBf16Pure; }},
        Variant{"masters",
                [](ToyRun& run) {
                  run.experiment.trainer.precision = PrecisionMode::kBf16Master;
                  run.experiment.trainer.ema_decay = 0.9;
                  run.experiment.trainer.micro_batch = TrainerConfig::kAutoMicroBatch;
                  run.experiment.trainer.on_nonfinite = OnNonfinite::kSkip;
                }},
        Variant{"unfreezing",
                [](ToyRun& run) {
                  run.experiment.trainer.ema_decay = 0.9;
                  run.experiment.features.set(
                      FreezingConfig{.freeze = {{"hidden.*"}, ""}, .unfreeze = {{{.steps = 6}, {{"hidden.*"}, ""}}}});
                }}),
    [](const auto& of) { return of.param.title; });

}  // namespace
}  // namespace ddprun::testing
