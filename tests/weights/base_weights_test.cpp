// SPDX-License-Identifier: MIT
// Checkpoints without the weights that never train: smaller, with the same ends, and for no other base.
#include "weights/base_weights.h"

#include "support/toy_run.h"
#include "weights/freezing.h"
#include "weights/tensor_digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of_training;
using ::testing::HasSubstr;
using testing::same_bits;
using testing::ToyModel;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;

constexpr int64_t kEpochSteps = 9;  // of an epoch

FreezingConfig below(std::vector<std::string> frozen) {
  return {.freeze = {std::move(frozen), "e.yaml: pretrained.freeze: "}};
}

// The hidden layer never trains.
ToyRun adapted(bool only_trainable = true) {
  ToyRun run;
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 3, .global_batch = 12, .log_every = 4};
  run.experiment.features.set(below({"hidden.*"}));
  run.experiment.checkpoint.only_trainable = only_trainable;
  return run;
}

ToyRun stopped(ToyRun run, int64_t step) {
  run.stop = [step](int64_t, int64_t now) { return now >= step; };
  return run;
}

ToyRun resumed(ToyRun run, const std::string& checkpoint) {
  run.resume_from = checkpoint;
  return run;
}

std::vector<std::string> names_in(const std::filesystem::path& checkpoint) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : read_checkpoint(verify_checkpoint(checkpoint)).model) names.push_back(name);
  return names;
}
std::vector<std::string> names_in(const ToyResult& result) { return names_in(result.end.checkpoint); }

std::shared_ptr<ToyModel> prepared(uint64_t seed) {
  torch::manual_seed(seed);
  auto model = std::make_shared<ToyModel>();
  model->prepare({.sample_shape = {8}, .classes = 3});
  return model;
}

TEST(BaseWeights, CheckpointsHoldOnlyWhatTrainsAndTheDigestOfTheRest) {
  const auto part = train_toy(adapted()), whole = train_toy(adapted(false));
  EXPECT_TRUE(same_bits(part.weights[0], whole.weights[0]));
  EXPECT_THAT(names_in(part), ElementsAre("output.bias", "output.weight"));
  EXPECT_THAT(names_in(whole), ElementsAre("hidden.bias", "hidden.weight", "output.bias", "output.weight"));
  const auto left_out = verify_checkpoint(part.end.checkpoint).left_out;
  ASSERT_TRUE(left_out);
  const auto digests = digests_of_weights(*prepared(42));
  EXPECT_EQ(*left_out,
            (LeftOutWeights{digests.at("hidden.weight") + digests.at("hidden.bias"), 2, 16 * 8 * 4 + 16 * 4}));
  EXPECT_FALSE(verify_checkpoint(whole.end.checkpoint).left_out);
}

// Its first weights are not those of the seed.
class OtherModel : public ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    torch::manual_seed(7);
    ToyModel::prepare(data);
  }
};

TEST(BaseWeights, AnotherBaseIsRefusedWithBothDigests) {
  const auto first = train_toy(stopped(adapted(), 3)), whole = train_toy(stopped(adapted(false), 12));
  auto other = resumed(adapted(), first.end.checkpoint);
  other.make_model = [] { return std::make_shared<OtherModel>(); };
  EXPECT_THAT(
      error_of_training(other),
      AllOf(HasSubstr(first.end.checkpoint + " leaves out 2 parameters that never train (checkpoint.only_trainable)"),
            HasSubstr("their digest is "), HasSubstr(", the checkpoint's manifest says "),
            HasSubstr("pretrained.file and seed")));
  EXPECT_THAT(names_in(train_toy(resumed(other, whole.end.checkpoint))),  // whose base is not this model's
              ElementsAre("hidden.bias", "hidden.weight", "output.bias", "output.weight"));
}

TEST(BaseWeights, ACheckpointThatLacksWhatTrainsDoesNotFit) {
  const auto first = train_toy(stopped(adapted(), 3));
  auto checkpoint = read_checkpoint(verify_checkpoint(first.end.checkpoint));
  checkpoint.model.erase("output.bias");
  const auto model = prepared(42);
  EXPECT_THAT(error_of([&] {
                with_left_out(checkpoint.model, checkpoint.left_out, *model, digests_of_weights(*model), "step_3");
              }),
              HasSubstr("step_3 does not fit the model: it leaves out 2 parameters that never train "
                        "(checkpoint.only_trainable), and lacks 3 of the model's: hidden.weight, hidden.bias, "
                        "output.bias"));
}

// What an earlier attempt trained is frozen now, and the other way round.
TEST(BaseWeights, WhatHasChangedStaysInCheckpointsWhateverIsFrozenNow) {
  std::vector<TensorDict> ends;
  for (const bool only_trainable : {true, false}) {
    const auto run = adapted(only_trainable);
    const auto first = train_toy(stopped(run, 3));
    auto other = resumed(run, first.end.checkpoint);
    other.experiment.features.set(below({"output.*", "hidden.bias"}));
    const auto second = train_toy(stopped(other, 12));
    if (only_trainable) {
      EXPECT_THAT(names_in(second), ElementsAre("hidden.weight", "output.bias", "output.weight"));
    }
    ends.push_back(train_toy(resumed(run, second.end.checkpoint)).weights[0]);
  }
  EXPECT_TRUE(same_bits(ends[0], ends[1]));
}

TEST(BaseWeights, WhatIsUnfrozenLaterIsInEachCheckpoint) {
  auto run = adapted();
  auto config = below({"hidden.*"});
  config.unfreeze = {{{.epochs = 2}, {{"hidden.bias"}, "e.yaml: pretrained.unfreeze: "}}};
  run.experiment.features.set(config);
  const auto first = train_toy(stopped(run, 3));
  EXPECT_THAT(names_in(first), ElementsAre("hidden.bias", "output.bias", "output.weight"));
  auto whole = run;
  whole.experiment.checkpoint.only_trainable = false;
  EXPECT_TRUE(same_bits(train_toy(resumed(run, first.end.checkpoint)).weights[0], train_toy(whole).weights[0]));
}

// Changes a weight that no step trains.
class Meddler : public Callback {
 public:
  void start(const Training& training) override { model_ = training.model; }
  Requests after_step(const StepDone& step) override {
    const torch::NoGradGuard no_gradients;
    if (step.step == kEpochSteps + 1) model_->named_parameters()["hidden.bias"].add_(1);
    return {};
  }

 private:
  std::shared_ptr<Model> model_;
};

TEST(BaseWeights, WhatACallbackChangesIsInTheCheckpointsFromThenOn) {
  auto run = adapted();
  run.make_callbacks = []() -> std::vector<NamedCallback> {
    return {{"meddler", "callbacks[0]", std::make_shared<Meddler>()}};
  };
  const auto result = train_toy(run);
  EXPECT_THAT(names_in(result.own_folder->path() / "checkpoints" / checkpoint_name(kEpochSteps)),
              ElementsAre("output.bias", "output.weight"));
  EXPECT_THAT(names_in(result), ElementsAre("hidden.bias", "output.bias", "output.weight"));
  EXPECT_EQ(verify_checkpoint(result.end.checkpoint).left_out->tensors, 1);
}

TEST(BaseWeights, TheKeyMayBeSwitchedOnAndOffBetweenAttempts) {
  const auto whole = train_toy(adapted(false)), first = train_toy(stopped(adapted(false), 3));
  const auto second = train_toy(stopped(resumed(adapted(), first.end.checkpoint), 12));
  const auto third = train_toy(resumed(adapted(false), second.end.checkpoint));
  EXPECT_EQ(names_in(first).size(), 4U);
  EXPECT_EQ(names_in(second).size(), 2U);
  EXPECT_EQ(names_in(third).size(), 4U);
  EXPECT_TRUE(same_bits(third.weights[0], whole.weights[0]));
}

TEST(BaseWeights, WithNothingFrozenCheckpointsAreWhole) {
  auto run = adapted();
  run.experiment.features.set(FreezingConfig());
  const auto result = train_toy(stopped(run, 3));
  EXPECT_FALSE(verify_checkpoint(result.end.checkpoint).left_out);
  EXPECT_EQ(names_in(result).size(), 4U);
  const auto model = prepared(1);
  const BaseWeights base(*model, Freezing({model}, {}, 1).never_trained(), digests_of_weights(*model));
  EXPECT_EQ(base.text(), "checkpoints have all 4 parameters: each of them trains or has changed");
}

TEST(BaseWeights, SaysHowMuchIsLeftOut) {
  const auto model = prepared(1);
  const BaseWeights base(*model, Freezing({model}, below({"hidden.*"}), 1).never_trained(), digests_of_weights(*model));
  EXPECT_EQ(base.text(), "checkpoints leave out 2 of 4 parameters, 73.8 % of the weights (0.0 MB), which never train");
}

// A parameter in whatever form a training gives it.
class OneWeight : public Model {
 public:
  explicit OneWeight(const at::Tensor& weight) { weight_ = register_parameter("weight", weight, false); }
  at::Tensor forward(const at::Tensor& input) override { return input; }

 private:
  at::Tensor weight_;
};

uint64_t digest(const at::Tensor& weight) { return digests_of_weights(OneWeight(weight)).at("weight"); }

TEST(WeightDigests, DependOnNumbersTypeAndShapeAndNotOnTheMemoryFormat) {
  const auto weight = at::arange(2 * 3 * 4 * 5, at::kFloat).view({2, 3, 4, 5});
  EXPECT_EQ(digest(weight), digest(weight.contiguous(at::MemoryFormat::ChannelsLast)));
  EXPECT_NE(digest(weight), digest(weight.view({3, 2, 4, 5})));
  EXPECT_NE(digest(weight), digest(weight.view(at::kInt).view(at::kFloat) + 0.5));
  EXPECT_NE(digest(at::zeros({4})), digest(at::zeros({4}, at::kBFloat16)));
  auto flipped = weight.clone();
  flipped.view(-1)[7] = std::nextafter(7.0F, 8.0F);
  EXPECT_NE(digest(weight), digest(flipped));
}

}  // namespace
}  // namespace ddprun
