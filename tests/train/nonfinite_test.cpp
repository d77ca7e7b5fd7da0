// SPDX-License-Identifier: MIT
// A batch that gives NaN: the run stops before anything is spoilt, or trains as if the batch were not there; and what
// is written of it.
#include "features/verify_shards/verify_shards_section.h"
#include "support/toy_run.h"

#include <ddprun/error.h>

#include <ATen/ops/dropout.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/nn/modules/batchnorm.h>

#include <cmath>
#include <fstream>
#include <limits>

namespace ddprun::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 12;

// The data without some of their batches.
class Gapped : public ToyDataset {
 public:
  Gapped(int64_t train, int64_t val, std::vector<int64_t> gaps) : ToyDataset(train, val), gaps_(std::move(gaps)) {}

  int64_t size(Split split) const override {
    const auto all = ToyDataset::size(split);
    return split == Split::kTrain ? all - kBatch * static_cast<int64_t>(gaps_.size()) : all;
  }

  Batch get(Split split, std::span<const int64_t> indices) const override {
    std::vector<int64_t> shifted(indices.begin(), indices.end());
    for (auto& index : shifted) {
      for (const auto gap : gaps_) index += split == Split::kTrain && index / kBatch >= gap ? kBatch : 0;
    }
    auto batch = ToyDataset::get(split, shifted);
    batch.index = at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong);
    return batch;
  }

 private:
  std::vector<int64_t> gaps_;  // ascending
};

// A model with running statistics to spoil.
class Normed : public ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    ToyModel::prepare(data);
    norm_ = register_module("norm", torch::nn::BatchNorm1d(data.sample_shape.at(0)));
  }
  at::Tensor forward(const at::Tensor& input) override { return ToyModel::forward(norm_(input)); }

 private:
  torch::nn::BatchNorm1d norm_{nullptr};
};

// Nine steps in the data's own order, everything with a state in use.
ToyRun poisoned_toy(const std::string& action, int64_t ranks, const std::vector<int64_t>& samples) {
  ToyRun run{.ranks = ranks, .train_samples = 9 * kBatch};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 1, .global_batch = kBatch, .log_every = 100, .shuffle = false};
  run.experiment.trainer.on_nonfinite = enum_of<OnNonfinite>(action).value();
  run.experiment.trainer.ema_decay = 0.9;
  run.experiment.schedule = {.kind = ScheduleKind::kStep, .every = {.steps = 3}, .gamma = 0.5};
  run.experiment.checkpoint.every = {.steps = 2};
  run.make_model = [] { return std::make_shared<Normed>(); };
  run.make_dataset = [samples](int64_t train, int64_t val) {
    return std::make_shared<PoisonedToyDataset>(train, val, samples);
  };
  return run;
}

// In its own folder, for who looks there.
ToyRun poisoned_toy(const TempFolder& folder, const std::string& action, int64_t ranks,
                    const std::vector<int64_t>& samples) {
  auto run = poisoned_toy(action, ranks, samples);
  run.folder = folder.path();
  return run;
}

// The reference: the same run in whose data these batches are missing.
ToyRun gapped_toy(const std::vector<int64_t>& batches, int64_t ranks) {
  auto run = poisoned_toy("stop", ranks, {});
  run.make_dataset = [batches](int64_t train, int64_t val) { return std::make_shared<Gapped>(train, val, batches); };
  return run;
}

TensorDict weights_without(const std::vector<int64_t>& batches, int64_t ranks) {
  return train_toy(gapped_toy(batches, ranks)).weights[0];
}

int64_t newest_step(const TempFolder& folder) {
  std::vector<CheckpointFlaw> flaws;
  const auto newest = newest_checkpoint(folder.path(), flaws);
  EXPECT_TRUE(flaws.empty());
  return newest ? newest->step : -1;
}

nlohmann::json event(const TempFolder& folder, const std::string& name) {
  std::ifstream file(folder.path() / "nonfinite" / name);
  return nlohmann::json::parse(file);
}

// The ranks; the sample that is bad: in the first step, in the fourth on the last rank's part, in the last step.
using Case = std::tuple<int64_t, int64_t>;
class Nonfinite : public ::testing::TestWithParam<Case> {
 protected:
  static int64_t ranks() { return std::get<0>(GetParam()); }
  static int64_t sample() { return std::get<1>(GetParam()); }

  static void expect_as_without(const ToyResult& result) {
    const auto expected = train_toy(gapped_toy({sample() / kBatch}, ranks()));
    for (int64_t rank = 0; rank < ranks(); ++rank) {
      EXPECT_TRUE(same_bits(result.weights[rank], expected.weights[rank])) << "rank " << rank;
    }
    EXPECT_EQ(result.end.steps, expected.end.steps + 1);
    for (const auto* name : {"loss", "accuracy", "lr"})
      EXPECT_EQ(values_of(result.rows, "train", name), values_of(expected.rows, "train", name)) << name;
    EXPECT_EQ(values_of(result.rows, "val", "loss"), values_of(expected.rows, "val", "loss"));
    EXPECT_THAT(values_of(result.rows, "train", "skipped_steps"), ElementsAre(1));
  }
};

TEST_P(Nonfinite, SkipAndRollbackAreTrainingWithoutThatBatch) {
  for (const auto* action : {"skip", "rollback"}) {
    SCOPED_TRACE(action);
    auto run = poisoned_toy(action, ranks(), {sample()});
    run.experiment.features.set(VerifyShardsConfig{.on = true});
    expect_as_without(train_toy(run));
  }
}

TEST_P(Nonfinite, StopLeavesTheCheckpointBefore) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "stop", ranks(), {sample()});
  run.experiment.checkpoint.every = {.steps = 1};
  const int64_t before = sample() / kBatch, rank = sample() % kBatch * ranks() / kBatch;
  EXPECT_THAT(error_of_training(run),
              AllOf(HasSubstr("step " + std::to_string(before + 1) + ": the training loss is not finite: nan on rank " +
                              std::to_string(rank)),
                    HasSubstr("Lower the learning rate"), HasSubstr(folder.path().string() + "/nonfinite/step_0")));
  EXPECT_EQ(newest_step(folder), before == 0 ? -1 : before);
  if (before > 0) {
    EXPECT_EQ(verify_checkpoint(folder.path() / "checkpoints" / "last").step, before);
    auto rest = poisoned_toy(folder, "skip", ranks(), {sample()});
    rest.resume_from = folder.path() / "checkpoints" / "last";
    expect_as_without(train_toy(rest));
  }
}

TEST_P(Nonfinite, ARunResumedAfterOrBeforeItEndsTheSame) {
  const int64_t stop_at = sample() == 3 ? 5 : 3;
  for (const auto* action : {"skip", "rollback"}) {
    const auto run = poisoned_toy(action, ranks(), {sample()});
    const auto expected = train_toy(run), result = train_toy_twice(run, stop_at).second;
    EXPECT_TRUE(same_bits(result.weights[0], expected.weights[0])) << action;
    EXPECT_EQ(values_of(result.rows, "train", "skipped_steps"), values_of(expected.rows, "train", "skipped_steps"));
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, Nonfinite,
                         ::testing::Combine(::testing::Values(1, 2), ::testing::Values(3, 45, 8 * kBatch + 11)));

TEST(NonfiniteEvents, TheBatchIsWrittenByRankOnce) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "skip", 2, {45});
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

std::vector<int64_t> in_batches(int64_t first, int64_t end) {
  std::vector<int64_t> samples;
  for (auto batch = first; batch < end; ++batch) samples.push_back(batch * kBatch);
  return samples;
}

TEST(NonfiniteEvents, TooManySkipsInARowAreAnErrorOverAResumptionToo) {
  auto run = poisoned_toy("skip", 2, in_batches(4, 14));  // ten in a row
  run.train_samples = 30 * kBatch;
  EXPECT_EQ(train_toy(run).end.steps, 30);

  run.make_dataset = poisoned_toy("skip", 2, in_batches(4, 15)).make_dataset;
  const auto refused =
      AllOf(HasSubstr("step 15: the training loss is not finite"), HasSubstr("more than 10 steps in a row"));
  EXPECT_THAT(error_of_training(run), refused);
  EXPECT_THAT(error_of<UserError>([&] { train_toy_twice(run, 10); }), refused);
}

TEST(NonfiniteEvents, ThreeRollbacksToOneCheckpointSucceedAndAFourthIsAnError) {
  const std::vector<int64_t> bad{4 * kBatch, 5 * kBatch, 6 * kBatch, 7 * kBatch + 11};
  for (const int64_t ranks : {1, 2}) {
    auto run = poisoned_toy("rollback", ranks, {bad[0], bad[1], bad[2]});
    run.experiment.checkpoint.every = {.steps = 4};
    EXPECT_TRUE(same_bits(train_toy(run).weights[0], weights_without({4, 5, 6}, ranks)));

    run = poisoned_toy("rollback", ranks, bad);
    run.experiment.checkpoint.every = {.steps = 9};
    EXPECT_THAT(error_of_training(run),
                AllOf(HasSubstr("step 8: "), HasSubstr("training has already rolled back to step 0 3 times")));
  }
}

// Steps so short that the ranks agree on eight of them at once.
TEST(NonfiniteEvents, TheStepIsFoundAmongSeveral) {
  for (const auto* action : {"stop", "skip", "rollback"}) {
    const TempFolder folder, other;
    auto run = poisoned_toy(folder, action, 2, {13 * kBatch});
    run.train_samples = 40 * kBatch;
    run.experiment.checkpoint.every = {};
    run.step_seconds = 1e-4;
    if (run.experiment.trainer.on_nonfinite == OnNonfinite::kStop) {
      EXPECT_THAT(error_of_training(run), HasSubstr("step 14: "));
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
  auto run = poisoned_toy(folder, "rollback", 2, {7 * kBatch});
  run.experiment.checkpoint.async = false;  // it is there to be broken
  bool broken = false;
  run.stop = [&](int64_t rank, int64_t step) {
    if (rank == 0 && step == 7 && !std::exchange(broken, true))
      std::filesystem::resize_file(folder.path() / "checkpoints/step_00000006/model.safetensors", 10);
    return false;
  };
  EXPECT_TRUE(same_bits(train_toy(run).weights[0], weights_without({7}, 2)));
  EXPECT_TRUE(broken);
}

TEST(NonfiniteEvents, WhatWasRolledBackIsSkippedByEveryLaterAttempt) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "rollback", 2, {7 * kBatch});
  run.experiment.checkpoint.keep = 9;
  const auto expected = train_toy(run).weights[0];
  EXPECT_EQ(event(folder, "step_00000008.json")["rolled_back_to"], 6);
  run.resume_from = folder.path() / "checkpoints" / "step_00000002";
  EXPECT_TRUE(same_bits(train_toy_once(run, std::make_shared<RowKeeper>()).weights[0], expected));
}

TEST(NonfiniteEvents, AStepThatStoppedTheRunMayBeRolledBackByTheNextAttempt) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "stop", 2, {7 * kBatch});
  error_of_training(run);
  EXPECT_FALSE(event(folder, "step_00000008.json").contains("rolled_back_to"));
  run.experiment.trainer.on_nonfinite = OnNonfinite::kRollback;
  run.resume_from = folder.path() / "checkpoints" / "last";
  EXPECT_TRUE(same_bits(train_toy(run).weights[0], weights_without({7}, 2)));
}

TEST(NonfiniteEvents, ARollbackThatCannotBeNotedIsAnError) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "rollback", 1, {7 * kBatch});
  std::ofstream(folder.path() / "nonfinite") << "a file in the folder's place";
  EXPECT_THAT(error_of_training(run), HasSubstr("nonfinite"));
  std::filesystem::remove(folder.path() / "nonfinite");
  run.stop = [&](int64_t, int64_t step) {
    if (step == 7) std::ofstream(folder.path() / "nonfinite") << "a file in the folder's place";
    return false;
  };
  EXPECT_THAT(error_of_training(run), AllOf(HasSubstr("step 8: the training loss"), HasSubstr("cannot roll back: ")));
}

TEST(NonfiniteEvents, ADamagedNoteOfARollbackIsNamed) {
  const TempFolder folder;
  const auto run = poisoned_toy(folder, "rollback", 2, {});
  std::filesystem::create_directory(folder.path() / "nonfinite");
  std::ofstream(folder.path() / "nonfinite/step_00000004.json") << R"({"step": 4, "rolled_back)";
  EXPECT_THAT(error_of_training(run),
              AllOf(HasSubstr("nonfinite/step_00000004.json: it says which step"), HasSubstr("remove it")));
}

class Dropping : public ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return ToyModel::forward(at::dropout(input, 0.5, is_training()));
  }
};

TEST(NonfiniteEvents, RollbackPutsTheRandomGeneratorsBackToo) {
  auto run = poisoned_toy("rollback", 1, {45}), gapped = gapped_toy({3}, 1);
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
    if (way_ == Way::kLossAlone) step.loss = step.loss + std::nan("");  // its gradient is that of the rest
    if (way_ == Way::kGradientsAlone)
      step.loss = step.loss + (parameters()[0].sum() * 0).sqrt();  // 0, of slope 0 * inf
    return step;
  }

 private:
  Way way_;
};

TEST(NonfiniteEvents, ALossIsNoticedByAllRanksWhereItsGradientsAreFinite) {
  auto run = poisoned_toy("skip", 2, {});
  run.make_model = [] { return std::make_shared<Spoiling>(Spoiling::Way::kLossAlone); };
  const auto result = train_toy(run);
  EXPECT_TRUE(same_bits(result.weights[0], result.weights[1]));
  EXPECT_THAT(values_of(result.rows, "train", "skipped_steps"), ElementsAre(1));
}

TEST(NonfiniteEvents, GradientsAreNoticedWhereTheLossIsFinite) {
  for (const double clip : {0.0, 1.0}) {
    const TempFolder folder;
    auto run = poisoned_toy(folder, "stop", 2, {});
    run.experiment.trainer.clip_norm = clip;
    run.make_model = [] { return std::make_shared<Spoiling>(Spoiling::Way::kGradientsAlone); };
    EXPECT_THAT(error_of_training(run), HasSubstr("step 4: the gradients are not finite, the loss is: "));
    EXPECT_EQ(event(folder, "step_00000004.json")["cause"], "gradients");
    EXPECT_EQ(newest_step(folder), 2);
  }
}

TEST(NonfiniteEvents, AScalersOverflowsDoNotHideALossThatIsNoNumber) {
  for (const auto* action : {"stop", "skip", "rollback"}) {
    auto run = poisoned_toy(action, 2, {45});
    run.experiment.trainer.precision = PrecisionMode::kFp16;
    run.experiment.trainer.loss_scale = 1024;
    if (run.experiment.trainer.on_nonfinite == OnNonfinite::kStop) {
      EXPECT_THAT(error_of_training(run), HasSubstr("step 4: the training loss is not finite: nan on rank 1"));
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
  auto run = poisoned_toy("skip", 2, {45});
  run.experiment.trainer.micro_batch = 2;
  const auto result = train_toy(run);
  for (const auto& [name, weight] : result.weights[1]) EXPECT_TRUE(weight.isfinite().all().item<bool>()) << name;
  EXPECT_THAT(values_of(result.rows, "train", "skipped_steps"), ElementsAre(1));
}

TEST(NonfiniteEvents, WeightsThatAreNoNumbersAreNotSaved) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "stop", 2, {});
  run.experiment.checkpoint.every = {.steps = 1};
  run.lr = std::numeric_limits<double>::infinity();
  EXPECT_THAT(error_of_training(run), HasSubstr("the weights are not finite after step 1"));
  EXPECT_EQ(newest_step(folder), -1);
}

}  // namespace
}  // namespace ddprun::testing
