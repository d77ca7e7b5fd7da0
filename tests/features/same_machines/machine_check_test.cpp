// SPDX-License-Identifier: MIT
#include "features/same_machines/machine_check.h"

#include "support/toy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace ddprun::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// As of a machine that rounds otherwise: one of the models has other results, by this part of each number.
class Rounding : public ToyModel {
 public:
  explicit Rounding(float by) : by_(by) {}
  at::Tensor forward(const at::Tensor& input) override { return ToyModel::forward(input) * (1 + by_); }

 private:
  float by_;
};

ToyRun sharded(int64_t ranks) {
  ToyRun run{.ranks = ranks, .train_samples = 60};
  run.experiment.trainer = {.max_epochs = 1, .global_batch = 12, .shards = 4, .log_every = 100};
  return run;
}

std::string error_of_one(ToyRun run, float by) {
  const auto models = std::make_shared<std::atomic<int>>(0);
  run.make_model = [=] { return std::make_shared<Rounding>(++*models == 1 ? by : 0); };
  return error_of_training(run);
}

TEST(MachineCheck, NamesTheRankThatComputesOtherBits) {
  EXPECT_THAT(error_of_one(sharded(3), 1e-6F),
              AllOf(HasSubstr("trainer.shards: not all workers compute the same bits"),
                    HasSubstr("; other bits has rank "), HasSubstr(" thread"), HasSubstr("LibTorch ")));
}

// A weight that is registered under two names, as the embedding and the output of a language model.
class Tied : public ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    ToyModel::prepare(data);
    register_parameter("again", named_parameters()["hidden.weight"]);
  }
};

TEST(MachineCheck, PassesEqualRanksAndLeavesNothingOfItselfAndTiedWeightsTied) {
  EXPECT_EQ(error_of_one(sharded(3), 0), "");
  auto run = sharded(2), tied = sharded(2);
  tied.make_model = [] { return std::make_shared<Tied>(); };
  for (auto* one : {&run, &tied}) {
    one->experiment.trainer.shards = 2;
    const auto checked = train_toy(*one);
    one->experiment.trainer.shards = 0;
    EXPECT_TRUE(same_bits(checked.weights[0], train_toy(*one).weights[0]));
  }
}

// Reads a buffer that each step changes, as a codebook's.
class Remembering : public ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    ToyModel::prepare(data);
    seen_ = register_buffer("seen", torch::zeros({data.sample_shape.at(0)}));
  }
  at::Tensor forward(const at::Tensor& input) override {
    const auto result = ToyModel::forward(input - seen_);
    if (is_training()) seen_.mul_(0.9).add_(input.detach().mean(0), 0.1);
    return result;
  }

 private:
  at::Tensor seen_;
};

TEST(MachineCheck, FindsTheSameMachineAfterStepsThatChangedWhatForwardReads) {
  auto run = sharded(2);
  run.make_model = [] { return std::make_shared<Remembering>(); };
  const auto first = train_toy(run);
  run.resume_from = first.end.checkpoint;
  run.experiment.trainer.max_epochs = 2;
  ::testing::internal::CaptureStderr();
  train_toy(run);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::Not(HasSubstr("other bits")));
}

TEST(MachineCheck, WithoutShardsRanksMayDiffer) {
  auto run = sharded(2);
  run.experiment.trainer.shards = 0;
  EXPECT_EQ(error_of_one(run, 1e-6F), "");
}

}  // namespace
}  // namespace ddprun::testing
