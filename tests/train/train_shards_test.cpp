// SPDX-License-Identifier: MIT
// trainer.shards: whatever the number of ranks, a training has the same bits, with all that depends on a batch's
// division: batch statistics, a shared weight, clipping, averaged weights and a ragged last batch. Ranks are threads
// here and share one random generator, so nothing draws; tests/end_to_end/same_bits_test.py has dropout.
#include "support/repetitions.h"
#include "support/toy_run.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <optional>
#include <random>
#include <stdexcept>

namespace ddprun {
namespace {

using testing::kept_bytes;
using testing::texts_of;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;

// BatchNorm, whose statistics are of one shard; a weight that two layers share; and a buffer that each forward reads
// and changes, as a codebook's.
class NormedToyModel : public Model {
 public:
  void prepare(const DataSpec& data) override {
    hidden_ = register_module("hidden", torch::nn::Linear(data.sample_shape.at(0), 16));
    norm_ = register_module("norm", torch::nn::BatchNorm1d(4));
    square_ = register_parameter("square", torch::randn({16, 16}) / 4);
    output_ = register_module("output", torch::nn::Linear(16, data.classes));
    seen_ = register_buffer("seen", torch::zeros({16}));
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto hidden = torch::relu(norm_(hidden_(input).view({-1, 4, 4}))).flatten(1);
    for (int i = 0; i < 2; ++i) hidden = torch::tanh(at::matmul(hidden, square_)) - 0.1 * seen_;
    if (is_training()) seen_.mul_(0.9).add_(hidden.detach().mean(0), 0.1);
    return output_(hidden);
  }

 private:
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
  torch::nn::BatchNorm1d norm_{nullptr};
  at::Tensor square_, seen_;
};

// 103 samples in batches of 12: the last one has 7 samples.
ToyRun sharded(int64_t shards) {
  ToyRun run;
  run.experiment.seed = 42;
  run.experiment.trainer = {
      .max_epochs = 3, .global_batch = 12, .shards = shards, .log_every = 4, .clip_norm = 0.5, .ema_decay = 0.9};
  run.make_model = [] { return std::make_shared<NormedToyModel>(); };
  return run;
}

void expect_same(const ToyResult& one, const ToyResult& other, const std::string& what) {
  EXPECT_EQ(texts_of(one.rows), texts_of(other.rows)) << what;
  ASSERT_EQ(one.weights[0].size(), other.weights[0].size());
  for (const auto& [name, value] : one.weights[0])
    EXPECT_TRUE(at::equal(value, other.weights[0].at(name))) << name << ", " << what;
}

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

void expect_same_on_all(ToyRun run, const std::vector<int64_t>& worlds) {
  const auto alone = train_toy(run);
  for (const auto world : worlds) {
    run.ranks = world;
    expect_same(train_toy(run), alone, std::to_string(world) + " ranks");
  }
}

TEST(TrainShards, HaveTheSameBitsOnEveryNumberOfRanksThatHasOneForEach) {
  for (const auto& [shards, worlds] :
       std::vector<std::pair<int64_t, std::vector<int64_t>>>{{8, {2, 3, 4, 5, 6, 7, 8}}, {5, {2, 3, 5}}, {2, {2}}}) {
    expect_same_on_all(sharded(shards), worlds);
  }
}

TEST(TrainShards, TrainAsTheWholeBatchDoesWithinRounding) {
  auto run = sharded(6), whole = sharded(0);
  run.make_model = whole.make_model = [] { return std::make_shared<testing::ToyModel>(); };
  EXPECT_LT(testing::largest_difference(train_toy(run).weights[0], train_toy(whole).weights[0]), 1e-5);
}

TEST(TrainShards, HaveTheSameBitsWhereSomeLeaveParametersOut) {
  auto run = sharded(6);
  run.experiment.trainer.find_unused_parameters = true;
  run.experiment.trainer.global_batch = 20;  // the last batch has 3 samples
  run.make_model = [] { return std::make_shared<RoutedToyModel>(); };
  expect_same_on_all(run, {2, 3, 4, 6});
}

TEST(TrainShards, SkipANonfiniteOneOnEveryNumberOfRanksAlike) {
  auto run = sharded(6);
  run.experiment.trainer.on_nonfinite = OnNonfinite::kSkip;
  run.make_dataset = [](int64_t train, int64_t val) {
    return std::make_shared<testing::PoisonedToyDataset>(train, val, std::vector<int64_t>{17});
  };
  const auto skipped = testing::values_of(train_toy(run).rows, "train", "skipped_steps");
  EXPECT_EQ(skipped.back(), 3) << "a step in each epoch";
  expect_same_on_all(run, {2, 3, 6});
}

// Random lives of one training: its ranks are killed at any step, leave and join, share the optimizer or do not, log
// predictions or do not, and it ends with the bits of one rank that nothing disturbed. same_bits_test.py has real
// processes, and fewer lives.

constexpr int64_t kShards = 6, kSteps = 27;

// What a worker that is killed leaves: nothing but the checkpoints that were written before.
class Killed : public std::runtime_error {
 public:
  Killed() : std::runtime_error("killed") {}
};

class Life {
 public:
  Life(const ToyRun& run, uint64_t seed) : run_(run), chance_(seed) {}

  // Up to four disturbed legs, and one to the end, which it returns.
  ToyResult live() {
    const auto disturbed = draw(1, 4);
    for (int64_t leg = 0; leg < disturbed; ++leg) {
      if (const auto ended = disturbed_leg()) return *ended;
    }
    begin_leg("ends");
    return train_toy(run_);
  }

  const std::string& story() const { return story_; }

 private:
  int64_t draw(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(chance_); }

  void begin_leg(const std::string& what) {
    run_.ranks = draw(1, kShards);
    run_.experiment.trainer.shard_optimizer = draw(0, 1) == 1;
    run_.experiment.predictions.batches = draw(0, 1);
    run_.stop = {};
    std::vector<CheckpointFlaw> flaws;
    const auto newest = newest_checkpoint(run_.folder, flaws);
    run_.resume_from = newest ? newest->path : std::filesystem::path();
    story_ += std::to_string(run_.ranks) + (run_.experiment.trainer.shard_optimizer ? " ranks share" : " ranks") +
              " from step " + std::to_string(newest ? newest->step : 0) + ": " + what +
              (run_.experiment.predictions.batches > 0 ? ", with predictions\n" : "\n");
  }

  // The training's end, if it came before the disturbance.
  std::optional<ToyResult> disturbed_leg() {
    const auto at = draw(1, kSteps);
    const bool killed = draw(0, 1) == 1;
    begin_leg((killed ? "killed at step " : "stopped at step ") + std::to_string(at));
    run_.stop = [at, killed](int64_t, int64_t step) {
      if (killed && step >= at) throw Killed();
      return step >= at;
    };
    try {
      auto result = train_toy(run_);
      if (result.end.status == "completed") return result;
    } catch (const Killed&) {
    }
    return std::nullopt;
  }

  ToyRun run_;
  std::mt19937_64 chance_;
  std::string story_;
};

TEST(RandomSchedules, OfLossesDeparturesAndArrivalsEndWithTheBitsOfOneRankAlone) {
  auto run = sharded(kShards);
  run.experiment.checkpoint.every = {.steps = 4};
  const auto whole = train_toy(run);
  ASSERT_EQ(whole.end.steps, kSteps);
  ASSERT_GT(kept_bytes(whole, "ema").size(), 1000U);
  const auto [first, end_of_seeds] = testing::seeds(10);
  for (auto seed = first; seed < end_of_seeds; ++seed) {
    const testing::TempFolder folder;
    run.folder = folder.path();
    Life life(run, static_cast<uint64_t>(seed));
    const auto end = life.live();
    const auto story = "DDPRUN_SEED=" + std::to_string(seed) + "\n" + life.story();
    ASSERT_EQ(texts_of(end.rows).back(), texts_of(whole.rows).back()) << story;
    for (const auto* file : {"model", "optimizer", "ema"}) {
      ASSERT_EQ(kept_bytes(end, file), kept_bytes(whole, file)) << file << "\n" << story;
    }
  }
}

}  // namespace
}  // namespace ddprun
