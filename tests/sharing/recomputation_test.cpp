// SPDX-License-Identifier: MIT
#include "sharing/recomputation.h"

#include "support/toy_run.h"

#include <ddprun/error.h>
#include <ddprun/recompute.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::testing {
namespace {

using ::testing::HasSubstr;

// Two blocks; has memory for `room` samples in one pass, or for `more` if both are computed again.
class Blocks : public Model {
 public:
  Blocks(int64_t room, int64_t more) : room_(room), more_(more) {}

  void prepare(const DataSpec& data) override {
    const auto width = data.sample_shape.at(0);
    for (const char* name : {"first", "second"})
      blocks_.push_back(register_module(name, torch::nn::Linear(width, width)));
    output_ = register_module("output", torch::nn::Linear(width, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const auto chosen = std::ranges::count_if(blocks_, [](const auto& block) { return is_recomputed(*block); });
    const auto room = chosen == 2 ? more_ : room_;
    TORCH_CHECK_WITH(OutOfMemoryError, !is_training() || input.size(0) <= room, "no room for ", input.size(0));
    if (is_training()) largest = std::max(largest.load(), input.size(0));
    auto x = input;
    for (auto& block : blocks_) x = torch::tanh(recomputed(block, x));
    return output_(x);
  }

  static inline std::atomic<int64_t> largest = 0;

 private:
  const int64_t room_, more_;
  std::vector<torch::nn::Linear> blocks_;
  torch::nn::Linear output_{nullptr};
};

ToyRun run_of(int64_t room, int64_t more) {
  ToyRun run{.ranks = 2, .train_samples = 64};
  run.experiment.trainer = {.max_epochs = 1, .global_batch = 32, .log_every = 1};
  run.make_model = [=] { return std::make_shared<Blocks>(room, more); };
  return run;
}

int64_t found_by_auto(int64_t room, int64_t more) {
  auto run = run_of(room, more);
  run.experiment.trainer.micro_batch = TrainerConfig::kAutoMicroBatch;
  run.experiment.trainer.recompute.is_auto = true;
  Blocks::largest = 0;
  train_toy(run);
  return Blocks::largest;
}

TEST(Recomputation, AutoTakesBlocksIfLessThanAQuarterFitsAndMoreWithThem) {
  EXPECT_EQ(found_by_auto(2, 8), 8);
  EXPECT_EQ(found_by_auto(0, 8), 8);  // not even one sample fits without
  EXPECT_EQ(found_by_auto(4, 8), 4);  // a quarter of 16
  EXPECT_EQ(found_by_auto(2, 2), 2);
}

TEST(Recomputation, ChangesNoBit) {
  auto plain = run_of(16, 16), again = plain;
  again.experiment.trainer.recompute.blocks.patterns = {"f*"};
  EXPECT_TRUE(same_bits(train_toy(plain).weights[0], train_toy(again).weights[0]));
}

TEST(Recomputation, NamesTheBlocksThereAre) {
  const auto error_with = [](ToyRun run, const std::vector<std::string>& patterns) {
    run.experiment.trainer.recompute.blocks = {patterns, "e.yaml:3:4: trainer.recompute: "};
    return error_of_training(run);
  };
  auto run = run_of(16, 16);
  EXPECT_EQ(error_with(run, {"second", "*"}), "");
  EXPECT_THAT(error_with(run, {"first", "output"}),
              HasSubstr("e.yaml:3:4: trainer.recompute: no block matches \"output\"; those that can be computed again "
                        "are first, second"));
  run.make_model = [] { return std::make_shared<ToyModel>(); };
  EXPECT_THAT(error_with(run, {"*"}), HasSubstr("e.yaml:3:4: trainer.recompute: this model has no blocks"));
}

// Its block does more from call to call.
class Counting : public Model {
 public:
  void prepare(const DataSpec& data) override {
    block_ = register_module("block", torch::nn::Linear(data.sample_shape.at(0), data.classes));
  }
  at::Tensor forward(const at::Tensor& input) override {
    const auto forward = [this](const at::Tensor& x) { return torch::exp(block_(x) / ++calls_); };
    return recomputed(*block_, forward, input);
  }

 private:
  int calls_ = 0;
  torch::nn::Linear block_{nullptr};
};

TEST(Recomputation, RefusesABlockThatDependsOnMoreBeforeTheFirstStep) {
  auto run = run_of(16, 16);
  run.make_model = [] { return std::make_shared<Counting>(); };
  EXPECT_EQ(error_of_training(run), "");
  run.experiment.trainer.recompute.blocks.patterns = {"*"};
  run.stop = [](int64_t, int64_t step) {
    EXPECT_EQ(step, 0) << "it has trained";
    return false;
  };
  EXPECT_THAT(error_of_training(run), HasSubstr("trainer.recompute: block kept "));
}

TEST(Recomputation, IsNamedWhereMemoryRunsOut) {
  EXPECT_THAT(error_of_training(run_of(4, 16)), HasSubstr("trainer.recompute=all (the same results"));
}

}  // namespace
}  // namespace ddprun::testing
