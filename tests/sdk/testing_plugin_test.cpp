// SPDX-License-Identifier: MIT
// How tests of plugins get at them; and ddprun's own plugins under the checks that others' plugins are given.
#include "support/error_of.h"

#include <ddprun/testing.h>

#include <gmock/gmock.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace ddprun::check {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Settings, BecomeTheOptionsOfAnExperiment) {
  auto options = Settings({{"i", 7},
                           {"f", 0.1},
                           {"b", true},
                           {"s", "text"},
                           {"l", {1, 2}},
                           {"m", {0.9, 1e-9}},
                           {"w", {"a", "b"}},
                           {"one", {0.5}},
                           {"number", "7"}})
                     .options("model");
  EXPECT_EQ(options.get<int64_t>("i", 0, "h"), 7);
  EXPECT_EQ(options.get<double>("f", 0, "h"), 0.1);
  EXPECT_TRUE(options.get<bool>("b", false, "h"));
  EXPECT_EQ(options.get<std::string>("s", "", "h"), "text");
  EXPECT_THAT(options.get<std::vector<int64_t>>("l", {}, "h"), ElementsAre(1, 2));
  EXPECT_THAT(options.get<std::vector<double>>("m", {}, "h"), ElementsAre(0.9, 1e-9));
  EXPECT_THAT(options.get<std::vector<std::string>>("w", {}, "h"), ElementsAre("a", "b"));
  EXPECT_THAT(options.get<std::vector<double>>("one", {}, "h"), ElementsAre(0.5));
  options.get<int64_t>("number", 0, "h");
  EXPECT_THAT(options.problems(), ElementsAre("model.number: expected int, found \"7\""));
  EXPECT_EQ(Settings({{"file", "a.txt"}}).options("logger").get<std::string>("file", "", "h"), "a.txt");
}

TEST(PluginUnderTest, IsMadeAsTheRunnerMakesIt) {
  EXPECT_TRUE(model_plugin(MLP_PLUGIN, {{"hidden", 4}})());
  EXPECT_EQ(error_of(model_plugin(MLP_PLUGIN, {{"hiden", 4}})),
            "model.hiden: unknown key; did you mean hidden? known: dropout, hidden, layers, outputs");
  EXPECT_EQ(option_problems(MLP_PLUGIN, {{"hidden", 0}, {"dropout", 2.0}}),
            "model.hidden: expected int 1 .. 1048576, found 0\nmodel.dropout: expected float 0 .. 1, found 2");
  EXPECT_EQ(option_problems(MLP_PLUGIN, {}), "");
  EXPECT_TRUE(says(error_of(dataset_plugin(MLP_PLUGIN)), "is a plugin of the kind model, not dataset"));
  EXPECT_TRUE(says(error_of(model_plugin(NO_PLUGIN)), "is not a ddprun plugin"));
  EXPECT_TRUE(says(evaluation({.make = model_plugin("nowhere.so"), .data = {.sample_shape = {3}, .classes = 2}}),
                   "the constructor threw: the plugin cannot be loaded"));
}

// ddprun's own plugins keep what they ask of others.
TEST(OwnPlugins, PassTheChecks) {
  EXPECT_THAT(all(ModelTest{.make = model_plugin(MLP_PLUGIN, {{"hidden", 16}, {"layers", 2}}),
                            .data = {.sample_shape = {1, 4, 4}, .classes = 3}}),
              IsEmpty());
  EXPECT_THAT(
      all(DatasetTest{.make = dataset_plugin(DIGITS_PLUGIN, {{"train_size", 40}, {"val_size", 10}, {"test_size", 0}})}),
      IsEmpty());
  const OptimizerTest sgd{.make = optimizer_plugin(SGD_PLUGIN, {{"lr", 0.1}, {"momentum", 0.9}})};
  EXPECT_THAT(all(sgd), IsEmpty());
  EXPECT_EQ(same_as(sgd, torch_optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9))), "");
  const OptimizerTest adamw{.make = optimizer_plugin(ADAMW_PLUGIN, {{"weight_decay", 0.01}})};
  EXPECT_THAT(all(adamw), IsEmpty());
  EXPECT_EQ(same_as(adamw, torch_optimizer<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-3).weight_decay(0.01))),
            "");
}

}  // namespace
}  // namespace ddprun::check
