// SPDX-License-Identifier: MIT
// trainer.shards: whatever the number of ranks, a training has the same bits. Ranks are threads here and share one
// random generator, so nothing draws; tests/end_to_end/same_bits_test.py has dropout.
#include "sharded_toy.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

using testing::expect_same;
using testing::sharded;
using testing::TempFolder;
using testing::texts_of;
using testing::ToyDataset;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;
using testing::train_toy_twice;

// Two experts, of which each batch uses one, as its first sample says.
class RoutedToyModel : public Model {
 public:
  void prepare(const DataSpec& data) override {
    for (const auto* name : {"first", "second"})
      experts_.push_back(register_module(name, torch::nn::Linear(data.sample_shape.at(0), 16)));
    output_ = register_module("output", torch::nn::Linear(16, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const bool second = input[0][0].item<float>() > 0.8F;
    return output_(torch::tanh(experts_[second ? 1 : 0](input)));
  }

 private:
  std::vector<torch::nn::Linear> experts_;
  torch::nn::Linear output_{nullptr};
};

// One sample is broken.
class BrokenToyDataset : public ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = ToyDataset::get(split, indices);
    for (size_t i = 0; i < indices.size(); ++i) {
      if (split == Split::kTrain && indices[i] == 17) batch.input[static_cast<int64_t>(i)][3] = std::nan("");
    }
    return batch;
  }
};

void expect_same_on_all(ToyRun run, const std::vector<int64_t>& worlds) {
  const auto alone = train_toy(run);
  for (const auto world : worlds) {
    const TempFolder folder;
    run.folder = folder.path();
    run.ranks = world;
    expect_same(train_toy(run), alone, std::to_string(world) + " ranks");
  }
}

TEST(TrainShards, HaveTheSameBitsOnEveryNumberOfRanksThatHasOneForEach) {
  for (const auto& [shards, worlds] :
       std::vector<std::pair<int64_t, std::vector<int64_t>>>{{8, {2, 3, 4, 5, 6, 7, 8}}, {5, {2, 3, 5}}, {2, {2}}}) {
    const TempFolder folder;
    expect_same_on_all(sharded(folder, shards), worlds);
  }
}

TEST(TrainShards, TrainAsTheWholeBatchDoesWithinRounding) {
  const TempFolder one, other;
  auto run = sharded(one, 6), whole = sharded(other, 0);
  run.make_model = whole.make_model = [] { return std::make_shared<testing::ToyModel>(); };
  EXPECT_LT(testing::largest_difference(train_toy(run).weights[0], train_toy(whole).weights[0]), 1e-5);
}

TEST(TrainShards, HaveTheSameBitsWhereSomeLeaveParametersOut) {
  const TempFolder folder;
  auto run = sharded(folder, 6);
  run.experiment.trainer.find_unused_parameters = true;
  run.experiment.trainer.global_batch = 20;  // the last batch has 3 samples
  run.make_model = [] { return std::make_shared<RoutedToyModel>(); };
  expect_same_on_all(run, {2, 3, 4, 6});
}

TEST(TrainShards, SkipANonfiniteOneOnEveryNumberOfRanksAlike) {
  const TempFolder folder;
  auto run = sharded(folder, 6);
  run.experiment.trainer.on_nonfinite = OnNonfinite::kSkip;
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<BrokenToyDataset>(train, val); };
  const auto skipped = testing::values_of(train_toy(run).rows, "train", "skipped_steps");
  EXPECT_EQ(skipped.back(), 3) << "a step in each epoch";
  const TempFolder another;
  run.folder = another.path();
  expect_same_on_all(run, {2, 3, 6});
}

TEST(TrainShards, ContinueOnOtherRanksAsIfNothingHadHappened) {
  const TempFolder whole, parts;
  const auto never_stopped = train_toy(sharded(whole, 6));
  auto run = sharded(parts, 6);
  std::filesystem::path checkpoint;
  ToyResult last;
  int64_t stop_at = 6;  // between two rows
  for (const int64_t ranks : {2, 5, 1}) {
    run.ranks = ranks;
    run.resume_from = checkpoint;
    run.stop = [stop_at, ranks](int64_t rank, int64_t step) { return ranks != 1 && rank == 0 && step >= stop_at; };
    last = train_toy(run);
    checkpoint = last.end.checkpoint;
    stop_at += 8;
  }
  expect_same({.weights = last.weights}, {.weights = never_stopped.weights}, "2, 5, 1 ranks");
  const auto rows = texts_of(never_stopped.rows), resumed = texts_of(last.rows);
  EXPECT_GT(resumed.size(), 3U);
  EXPECT_TRUE(std::equal(resumed.rbegin(), resumed.rend(), rows.rbegin())) << "the rows since the last resumption";
}

TEST(TrainShards, AnotherNumberOfThemDoesNotContinueARun) {
  const TempFolder folder;
  auto run = sharded(folder, 6);
  run.experiment.trainer.max_steps = 2;
  run.resume_from = train_toy(run).end.checkpoint;
  run.experiment.trainer.shards = 4;
  EXPECT_THAT([&] { train_toy(run); },
              ::testing::ThrowsMessage<UserError>(::testing::HasSubstr("trainer.shards is 4, but ")));
}

}  // namespace
}  // namespace ddprun
