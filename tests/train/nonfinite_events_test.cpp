// SPDX-License-Identifier: MIT
// What is told of a NaN, how often it is borne, and the ways in which it comes.
#include "train/nonfinite_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>

namespace ddprun::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NonfiniteEvents, TheBatchIsWrittenByRankOnce) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "skip", 2);
  poison(run, {45});
  train_toy(run);
  const auto found = event(folder, "step_00000004.json");
  EXPECT_EQ(found["step"], 4);
  EXPECT_EQ(found["epoch"], 1);
  EXPECT_EQ(found["cause"], "loss");
  EXPECT_EQ(found["on_nonfinite"], "skip");
  ASSERT_EQ(found["ranks"].size(), 2U);
  EXPECT_EQ(found["ranks"][0]["samples"], nlohmann::json({36, 37, 38, 39, 40, 41}));
  EXPECT_EQ(found["ranks"][1]["samples"], nlohmann::json({42, 43, 44, 45, 46, 47}));
  EXPECT_TRUE(found["ranks"][0]["loss"].is_number_float());
  EXPECT_TRUE(found["ranks"][1]["loss"].is_null());
  EXPECT_EQ(found["ranks"][1]["nonfinite"], "nan");

  const auto file = folder.path() / "nonfinite" / "step_00000004.json";
  std::ofstream(file) << "looked at";
  run.experiment.checkpoint.every = {};
  train_toy(run);
  std::ifstream kept(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), "looked at");
}

TEST(NonfiniteEvents, TooManySkipsInARowAreAnError) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "skip", 2);
  run.train_samples = 30 * kBatch;
  std::vector<int64_t> bad;
  for (int64_t batch = 4; batch < 14; ++batch) bad.push_back(batch * kBatch);  // ten in a row, then one good one
  poison(run, bad);
  EXPECT_EQ(train_toy(run).end.steps, 30);

  const TempFolder other;
  bad.push_back(14 * kBatch);
  poison(run, bad);
  run.folder = other.path();
  EXPECT_THAT(error_of(run),
              AllOf(HasSubstr("step 15: the training loss is not finite"), HasSubstr("more than 10 steps in a row")));
}

TEST(NonfiniteEvents, SkipsInARowAreCountedOverAResumption) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "skip", 1);
  run.train_samples = 30 * kBatch;
  std::vector<int64_t> bad;
  for (int64_t batch = 4; batch < 15; ++batch) bad.push_back(batch * kBatch);
  poison(run, bad);
  auto rest = run;
  run.stop = [](int64_t, int64_t step) { return step >= 10; };
  rest.resume_from = train_toy(run).end.checkpoint;
  EXPECT_THAT(error_of(rest), HasSubstr("step 15: "));
}

TEST(NonfiniteEvents, ThreeRollbacksToOneCheckpointSucceedAndAFourthIsAnError) {
  for (const int64_t ranks : {1, 2}) {
    const TempFolder folder;
    auto run = poisoned_toy(folder, "rollback", ranks);
    run.experiment.checkpoint.every = {.steps = 4};
    poison(run, {4 * kBatch, 5 * kBatch, 6 * kBatch});
    EXPECT_TRUE(same_bits(train_toy(run).weights[0], train_without({4, 5, 6}, ranks).weights[0]));

    const TempFolder other;
    run.folder = other.path();
    run.experiment.checkpoint.every = {.steps = 9};
    poison(run, {4 * kBatch, 5 * kBatch, 6 * kBatch, 7 * kBatch + 11});
    EXPECT_THAT(error_of(run),
                AllOf(HasSubstr("step 8: "), HasSubstr("training has already rolled back to step 0 3 times")));
  }
}

// Steps so short that the ranks agree on eight of them at once.
TEST(NonfiniteEvents, TheStepIsFoundAmongSeveral) {
  for (const auto* action : {"stop", "skip", "rollback"}) {
    const TempFolder folder, other;
    auto run = poisoned_toy(folder, action, 2);
    run.train_samples = 40 * kBatch;
    run.experiment.checkpoint.every = {};
    poison(run, {13 * kBatch});
    run.step_seconds = 1e-4;
    if (run.experiment.trainer.on_nonfinite == OnNonfinite::kStop) {
      EXPECT_THAT(error_of(run), HasSubstr("step 14: "));
      continue;
    }
    const auto result = train_toy(run);
    run.step_seconds = 1;
    run.folder = other.path();
    EXPECT_TRUE(same_bits(result.weights[0], train_toy(run).weights[0])) << action;
    EXPECT_EQ(event(folder, "step_00000014.json"), event(other, "step_00000014.json"));
  }
}

TEST(NonfiniteEvents, RollbackPassesOverABrokenCheckpoint) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "rollback", 2);
  poison(run, {7 * kBatch});
  run.experiment.checkpoint.async = false;  // it is there to be broken
  bool broken = false;
  run.stop = [&](int64_t rank, int64_t step) {
    if (rank == 0 && step == 7 && !std::exchange(broken, true))
      std::filesystem::resize_file(folder.path() / "checkpoints/step_00000006/model.safetensors", 10);
    return false;
  };
  EXPECT_TRUE(same_bits(train_toy(run).weights[0], train_without({7}, 2).weights[0]));
  EXPECT_TRUE(broken);
}

TEST(NonfiniteEvents, WhatWasRolledBackIsSkippedByEveryLaterAttempt) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "rollback", 2);
  run.experiment.checkpoint.keep = 9;
  poison(run, {7 * kBatch});
  const auto expected = train_toy(run).weights[0];
  EXPECT_EQ(event(folder, "step_00000008.json")["rolled_back_to"], 6);
  run.resume_from = folder.path() / "checkpoints" / "step_00000002";
  EXPECT_TRUE(same_bits(train_toy_once(run, std::make_shared<RowKeeper>()).weights[0], expected));
}

TEST(NonfiniteEvents, AStepThatStoppedTheRunMayBeRolledBackByTheNextAttempt) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "stop", 2);
  poison(run, {7 * kBatch});
  error_of(run);
  EXPECT_FALSE(event(folder, "step_00000008.json").contains("rolled_back_to"));
  run.experiment.trainer.on_nonfinite = OnNonfinite::kRollback;
  run.resume_from = folder.path() / "checkpoints" / "last";
  EXPECT_TRUE(same_bits(train_toy(run).weights[0], train_without({7}, 2).weights[0]));
}

TEST(NonfiniteEvents, ARollbackThatCannotBeNotedIsAnError) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "rollback");
  poison(run, {7 * kBatch});
  std::ofstream(folder.path() / "nonfinite") << "a file in the folder's place";
  EXPECT_THAT(error_of(run), HasSubstr("nonfinite"));
  std::filesystem::remove(folder.path() / "nonfinite");
  run.stop = [&](int64_t, int64_t step) {
    if (step == 7) std::ofstream(folder.path() / "nonfinite") << "a file in the folder's place";
    return false;
  };
  EXPECT_THAT(error_of(run), AllOf(HasSubstr("step 8: the training loss"), HasSubstr("cannot roll back: ")));
}

TEST(NonfiniteEvents, ADamagedNoteOfARollbackIsNamed) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "rollback", 2);
  std::filesystem::create_directory(folder.path() / "nonfinite");
  std::ofstream(folder.path() / "nonfinite/step_00000004.json") << R"({"step": 4, "rolled_back)";
  EXPECT_THAT(error_of(run),
              AllOf(HasSubstr("nonfinite/step_00000004.json: it says which step"), HasSubstr("remove it")));
}

class Dropping : public ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    ToyModel::prepare(data);
    dropout_ = register_module("dropout", torch::nn::Dropout(0.5));
  }
  at::Tensor forward(const at::Tensor& input) override { return ToyModel::forward(dropout_(input)); }

 private:
  torch::nn::Dropout dropout_{nullptr};
};

TEST(NonfiniteEvents, RollbackPutsTheRandomGeneratorsBackToo) {
  const TempFolder folder, gapped_folder;
  auto run = poisoned_toy(folder, "rollback"), gapped = poisoned_toy(gapped_folder, "stop");
  poison(run, {45});
  gapped.make_dataset = [](int64_t train, int64_t val) {
    return std::make_shared<Gapped>(train, val, std::vector<int64_t>{3});
  };
  for (auto* one : {&run, &gapped}) one->make_model = [] { return std::make_shared<Dropping>(); };
  EXPECT_TRUE(same_bits(train_toy(run).weights[0], train_toy(gapped).weights[0]));
}

// Spoils the step that has the sample, in one of several ways.
class Spoiling : public ToyModel {
 public:
  enum class Way { kLossAlone, kGradientsAlone };
  explicit Spoiling(Way way) : way_(way) {}

  Step step(const Batch& batch, const Objective& objective) override {
    auto step = ToyModel::step(batch, objective);
    if (!is_training() || !batch.index.eq(45).any().item<bool>()) return step;
    if (way_ == Way::kLossAlone) step.loss = step.loss + kNan;  // its gradient is that of the rest
    if (way_ == Way::kGradientsAlone)
      step.loss = step.loss + (parameters()[0].sum() * 0).sqrt();  // 0, of slope 0 * inf
    return step;
  }

 private:
  Way way_;
};

TEST(NonfiniteEvents, ALossIsNoticedByAllRanksWhereItsGradientsAreFinite) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "skip", 2);
  run.make_model = [] { return std::make_shared<Spoiling>(Spoiling::Way::kLossAlone); };
  const auto result = train_toy(run);
  EXPECT_TRUE(same_bits(result.weights[0], result.weights[1]));
  EXPECT_THAT(values_of(result.rows, "train", "skipped_steps"), ElementsAre(1));
}

TEST(NonfiniteEvents, GradientsAreNoticedWhereTheLossIsFinite) {
  for (const double clip : {0.0, 1.0}) {
    const TempFolder folder;
    auto run = poisoned_toy(folder, "stop", 2);
    run.experiment.trainer.clip_norm = clip;
    run.make_model = [] { return std::make_shared<Spoiling>(Spoiling::Way::kGradientsAlone); };
    EXPECT_THAT(error_of(run), HasSubstr("step 4: the gradients are not finite, the loss is: "));
    EXPECT_EQ(event(folder, "step_00000004.json")["cause"], "gradients");
    EXPECT_EQ(newest_step(folder), 2);
  }
}

TEST(NonfiniteEvents, AScalersOverflowsDoNotHideALossThatIsNoNumber) {
  for (const auto* action : {"stop", "skip", "rollback"}) {
    const TempFolder folder;
    auto run = poisoned_toy(folder, action, 2);
    run.experiment.trainer.precision = PrecisionMode::kFp16;
    run.experiment.trainer.loss_scale = 1024;
    poison(run, {45});
    if (run.experiment.trainer.on_nonfinite == OnNonfinite::kStop) {
      EXPECT_THAT(error_of(run), HasSubstr("step 4: the training loss is not finite: nan on rank 1"));
      continue;
    }
    const auto result = train_toy(run);
    for (const auto& [name, weight] : result.weights[0]) EXPECT_TRUE(weight.isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(same_bits(result.weights[0], result.weights[1]));
    EXPECT_THAT(values_of(result.rows, "train", "skipped_steps"), ElementsAre(1));
    EXPECT_THAT(values_of(result.rows, "train", "lr"), ElementsAre(0.1 * 0.5 * 0.5));  // eight steps moved the schedule
  }
}

TEST(NonfiniteEvents, MicroBatchesAreOneStep) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "skip", 2);
  run.experiment.trainer.micro_batch = 2;
  poison(run, {45});
  const auto result = train_toy(run);
  for (const auto& [name, weight] : result.weights[1]) EXPECT_TRUE(weight.isfinite().all().item<bool>()) << name;
  EXPECT_THAT(values_of(result.rows, "train", "skipped_steps"), ElementsAre(1));
}

TEST(NonfiniteEvents, WeightsThatAreNoNumbersAreNotSaved) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "stop");
  run.experiment.checkpoint.every = {.steps = 1};
  run.lr = std::numeric_limits<double>::infinity();
  EXPECT_THAT(error_of(run), HasSubstr("the weights are not finite after step 1"));
  EXPECT_EQ(newest_step(folder), -1);
}

}  // namespace
}  // namespace ddprun::testing
