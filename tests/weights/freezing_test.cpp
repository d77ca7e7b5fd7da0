// SPDX-License-Identifier: MIT
// Parts of a network that do not train, or not yet.
#include "weights/freezing.h"

#include "support/toy_run.h"

#include <ddprun/batch_norm.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using testing::same_bits;
using testing::ToyRun;
using testing::train_toy;

// A linear layer with BatchNorm, twice, the second without parameters, and an output.
class NormedModel : public Model {
 public:
  void prepare(const DataSpec& data) override {
    one_ = register_module("one", torch::nn::Linear(data.sample_shape.at(0), 16));
    norm1_ = register_module("norm1", BatchNorm(16));
    two_ = register_module("two", torch::nn::Linear(16, 16));
    norm2_ = register_module("norm2", BatchNorm(BatchNormOptions{.channels = 16, .scale = false, .shift = false}));
    output_ = register_module("output", torch::nn::Linear(16, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    return output_(torch::relu(norm2_(two_(torch::relu(norm1_(one_(input)))))));
  }

  torch::nn::Linear one_{nullptr}, two_{nullptr}, output_{nullptr};
  BatchNorm norm1_{nullptr}, norm2_{nullptr};
};

std::shared_ptr<NormedModel> normed() {
  auto model = std::make_shared<NormedModel>();
  model->prepare({.sample_shape = {8}, .classes = 3});
  return model;
}

NamePatterns patterns(std::vector<std::string> patterns, const std::string& key) {
  return {std::move(patterns), "e.yaml:3:7: pretrained." + key + ": "};
}

FreezingConfig freezing(std::vector<std::string> frozen) { return {.freeze = patterns(std::move(frozen), "freeze")}; }

TEST(Freezing, FollowsTheStepsInBothDirections) {
  const auto model = normed();
  auto config = freezing({"one.*", "norm1.*", "two.*"});
  config.unfreeze = {{{.steps = 70}, patterns({"one.*", "norm1.*"}, "unfreeze")},
                     {{.epochs = 2}, patterns({"t*"}, "unfreeze")}};
  Freezing frozen({model}, config, 10);
  EXPECT_EQ(frozen.text(),
            "6 of 8 parameters are frozen (89.8 % of the weights), 2 of them until 2ep, 4 of them until 70st");
  const auto trains = [&](const std::string& name) { return model->named_parameters()[name].requires_grad(); };
  EXPECT_FALSE(frozen.enter(19));
  EXPECT_FALSE(trains("two.bias"));
  EXPECT_TRUE(trains("output.bias"));
  EXPECT_TRUE(frozen.is_due(20));
  EXPECT_TRUE(frozen.enter(20));
  EXPECT_TRUE(trains("two.bias"));
  EXPECT_FALSE(trains("one.weight"));
  EXPECT_TRUE(frozen.enter(500));
  EXPECT_TRUE(trains("one.weight"));
  EXPECT_EQ(frozen.text(), "all 8 parameters train");
  EXPECT_TRUE(frozen.enter(0));
  EXPECT_FALSE(trains("two.bias"));
  EXPECT_THAT(frozen.warnings(70),
              ::testing::ElementsAre(HasSubstr("pretrained.unfreeze: 70st is not before the end")));
}

TEST(Freezing, KeepsNormsInEvaluationModeWhileTheirParametersAreFrozen) {
  const auto model = normed();
  Freezing partly({model}, freezing({"norm1.weight"}), 10);
  model->train();
  EXPECT_TRUE(model->norm1_->is_training());  // its bias trains
  const auto other = normed();
  auto config = freezing({"norm1.*", "norm2.*"});
  config.unfreeze = {{{.steps = 5}, patterns({"norm1.*"}, "unfreeze")}};
  Freezing both({other}, config, 10);
  for (const bool on : {true, false, true}) other->train(on);
  EXPECT_FALSE(other->norm1_->is_training());
  EXPECT_FALSE(other->norm2_->is_training());  // has no parameters: named by its statistics
  EXPECT_TRUE(other->output_->is_training());
  both.enter(5);
  EXPECT_TRUE(other->norm1_->is_training());
  EXPECT_FALSE(other->norm2_->is_training());
  other->eval();
  both.enter(0);
  other->eval();
  EXPECT_FALSE(other->output_->is_training());
}

TEST(Freezing, RefusesPatternsWithoutAMatchAndAnEndToAllTraining) {
  const auto error = [](const FreezingConfig& config) { return error_of([&] { Freezing({normed()}, config, 10); }); };
  EXPECT_THAT(error(freezing({"two_.*"})), HasSubstr("e.yaml:3:7: pretrained.freeze: no parameter matches \"two_.*\"; "
                                                     "did you mean two.*?; the model has one.weight"));
  EXPECT_THAT(error(freezing({"*"})),
              HasSubstr("pretrained.freeze: it freezes all parameters of the model, so that nothing is left"));
  auto config = freezing({"one.*"});
  config.unfreeze = {{{.epochs = 1}, patterns({"two.*"}, "unfreeze")}};
  EXPECT_THAT(error(config), HasSubstr("pretrained.unfreeze: no frozen parameter matches \"two.*\""));
}

TEST(Freezing, UnfreezesWhatTheModelItselfDoesNotTrainIfAPatternNamesNothingElse) {
  const auto model = normed();
  for (const auto& part : {model->one_, model->two_}) part->weight.set_requires_grad(false);
  const auto trains = [&](const std::string& name) { return model->named_parameters()[name].requires_grad(); };
  auto config = freezing({"one.weight", "norm1.*"});
  config.unfreeze = {{{.steps = 5}, patterns({"*"}, "unfreeze")}};
  take_up_frozen(*model, config);
  Freezing frozen({model}, config, 10);
  EXPECT_FALSE(trains("one.weight"));
  EXPECT_EQ(frozen.text(), "3 of 7 parameters are frozen (65.8 % of the weights), 3 of them until 5st");
  EXPECT_TRUE(frozen.enter(5));
  EXPECT_TRUE(trains("one.weight"));
  EXPECT_FALSE(trains("two.weight"));  // no pattern of its own
}

TEST(Freezing, SaysHowToUnfreezeWhatTheModelItselfDoesNotTrain) {
  const auto model = normed();
  model->one_->weight.set_requires_grad(false);
  auto config = freezing({"one.*"});  // its bias
  config.unfreeze = {{{.steps = 5}, patterns({"one.weight"}, "unfreeze")}};
  take_up_frozen(*model, config);
  EXPECT_THAT(error_of([&] { Freezing({model}, config, 10); }),
              HasSubstr("pretrained.unfreeze: the model itself does not train what matches \"one.weight\" "
                        "(requires_grad=False): with a pattern for it alone in pretrained.freeze"));
}

// Nine steps in an epoch.
ToyRun frozen_run(int64_t ranks = 1) {
  ToyRun run{.ranks = ranks};
  run.experiment.seed = 42;
  run.experiment.trainer = {
      .max_epochs = 3, .global_batch = 12, .log_every = 4, .ema_decay = 0.9, .sync_batchnorm = true};
  auto config = freezing({"one.*", "norm1.*", "norm2.*"});
  config.unfreeze = {{{.epochs = 1}, patterns({"norm1.*", "norm2.*"}, "unfreeze")},
                     {{.steps = 14}, patterns({"*.weight"}, "unfreeze")}};
  run.experiment.features.set(config);
  run.make_model = [] { return std::make_shared<NormedModel>(); };
  return run;
}

TensorDict until(ToyRun run, int64_t step) {
  run.stop = [step](int64_t rank, int64_t now) { return rank == 0 && now >= step; };
  return train_toy(run).weights[0];
}

TEST(FrozenTraining, LeavesWeightsAndStatisticsAloneUntilTheyAreUnfrozen) {
  const auto start = until(frozen_run(), 1), later = until(frozen_run(), 9), end = train_toy(frozen_run()).weights[0];
  for (const auto* name : {"one.weight", "one.bias", "norm1.weight", "norm1.running_mean", "norm1.num_batches_tracked",
                           "norm2.running_var"})
    EXPECT_TRUE(torch::equal(start.at(name), later.at(name))) << name;
  EXPECT_FALSE(torch::equal(start.at("two.weight"), later.at("two.weight")));
  EXPECT_EQ(later.at("norm1.num_batches_tracked").item<int64_t>(), 0);
  EXPECT_EQ(end.at("norm1.num_batches_tracked").item<int64_t>(), 27 - 9);
  EXPECT_TRUE(torch::equal(start.at("one.bias"), end.at("one.bias")));
  EXPECT_FALSE(torch::equal(start.at("one.weight"), end.at("one.weight")));
  EXPECT_FALSE(torch::equal(start.at("norm1.bias"), end.at("norm1.bias")));
}

TEST(FrozenTraining, GivesTheSameWeightsAtAnyNumberOfRanksAndDevices) {
  auto on_devices = frozen_run();
  on_devices.devices = 2;
  on_devices.experiment.features.set(freezing({"one.*", "norm*"}));  // a batch's statistics are its first part's
  on_devices.experiment.trainer.sync_batchnorm = false;
  auto same = on_devices;
  same.devices = 0;
  EXPECT_LT(testing::largest_difference(train_toy(on_devices).weights[0], train_toy(same).weights[0]), 1e-5);
  const auto pair = train_toy(frozen_run(2));
  EXPECT_TRUE(same_bits(pair.weights[0], pair.weights[1]));
  EXPECT_LT(testing::largest_difference(train_toy(frozen_run()).weights[0], pair.weights[0]), 1e-4);
}

// One batch is not a number: the run goes back over an unfreezing.
TEST(FrozenTraining, RollsBackOverAnUnfreezingAsIfItHadBeenResumedThere) {
  std::vector<TensorDict> ends;
  for (const int64_t every : {1, 100}) {  // a checkpoint just before the bad batch, or only at the start
    auto run = frozen_run(2);
    run.experiment.trainer.on_nonfinite = OnNonfinite::kRollback;
    run.experiment.trainer.shuffle = false;
    run.experiment.trainer.max_epochs = 2;
    auto config = run.experiment.features.of<FreezingConfig>();
    config.unfreeze = {{{.steps = 6}, patterns({"norm1.*"}, "unfreeze")}};
    run.experiment.features.set(config);
    run.experiment.checkpoint.every = {.steps = every};
    run.make_dataset = [](int64_t train, int64_t val) {
      return std::make_shared<testing::PoisonedToyDataset>(train, val, std::vector<int64_t>{90});
    };
    ends.push_back(train_toy(run).weights[0]);
  }
  EXPECT_TRUE(same_bits(ends[0], ends[1]));
}

}  // namespace
}  // namespace ddprun
