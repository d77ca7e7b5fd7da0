// SPDX-License-Identifier: MIT
// What makes one rank's network another than the others' is found at the next row or checkpoint, and its rank named.
#include "features/replicas/replica_check.h"

#include "support/toy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>

namespace ddprun::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kEvery = 4;  // steps between rows
constexpr int64_t kFlipped = 6;

// Not the last one, which a later step may round away.
void flip_a_bit(const at::Tensor& tensor) {
  uint32_t word;
  std::memcpy(&word, tensor.data_ptr(), sizeof word);
  word ^= 1 << 12;
  std::memcpy(tensor.data_ptr(), &word, sizeof word);
}

// Changes a bit of one weight of some ranks after a step, as a faulty memory would.
class Flip : public Callback {
 public:
  explicit Flip(std::set<int64_t> ranks) : ranks_(std::move(ranks)) {}

  void start(const Training& training) override { training_ = training; }

  Requests after_step(const StepDone& step) override {
    const torch::NoGradGuard no_gradients;
    if (step.step == kFlipped && ranks_.contains(training_.rank))
      flip_a_bit(training_.model->named_parameters()["hidden.weight"]);
    return {};
  }

 private:
  std::set<int64_t> ranks_;
  Training training_;
};

// Its momentum is another on each rank, though the weights are the same.
class RankSgd : public ToySgd {
 public:
  RankSgd() : ToySgd(0.1) {}

  OptimizerState state() const override {
    auto state = ToySgd::state();
    static std::atomic<int> asked{0};
    for (auto& [name, tensor] : state) tensor = tensor + ++asked;
    return state;
  }
};

ToyRun toy(int64_t ranks) {
  ToyRun run{.ranks = ranks, .train_samples = 120};
  run.experiment.trainer = {.max_epochs = 1, .global_batch = 12, .log_every = kEvery};
  return run;
}

ToyRun flipped(int64_t ranks, const std::set<int64_t>& where) {
  auto run = toy(ranks);
  run.make_callbacks = [where]() -> std::vector<NamedCallback> {
    return {{"flip", "callbacks[0]", std::make_shared<Flip>(where)}};
  };
  return run;
}

std::string difference_in(const ToyRun& run) { return error_of_training<ReplicasDiffer>(run); }

TEST(ReplicaCheck, NamesTheRankWhoseMemoryIsFaulty) {
  const auto error = difference_in(flipped(4, {2}));
  EXPECT_THAT(error, AllOf(HasSubstr("after step 8 the ranks hold different networks: rank 2 on "),
                           HasSubstr("(cpu) has other"), HasSubstr("the most alike are rank 0 on "),
                           HasSubstr("rank 3 on "), HasSubstr("They were equal after step 4")));
  EXPECT_THAT(error, HasSubstr("hidden.weight"));
}

TEST(ReplicaCheck, NamesAllOfThem) {
  EXPECT_THAT(difference_in(flipped(5, {1, 4})), HasSubstr("rank 1 on "));
  EXPECT_THAT(difference_in(flipped(2, {0})), AllOf(HasSubstr("rank 1 on "), HasSubstr("rank 0 on ")));
}

TEST(ReplicaCheck, ACheckpointIsOfEqualRanks) {
  const TempFolder folder;
  auto run = flipped(3, {0});
  run.folder = folder.path();
  run.experiment.trainer.log_every = 100;
  run.experiment.checkpoint.every = {.steps = 5};
  EXPECT_THAT(difference_in(run), HasSubstr("after step 10 "));
  std::vector<CheckpointFlaw> flaws;
  EXPECT_EQ(newest_checkpoint(folder.path(), flaws).value().step, 5);
}

TEST(ReplicaCheck, ComparesTheOptimizersState) {
  auto run = toy(2);
  run.make_optimizer = [](double) { return std::make_shared<RankSgd>(); };
  EXPECT_THAT(difference_in(run), HasSubstr("momentum of the optimizer"));
}

TEST(ReplicaCheck, EqualRanksPassWithAveragesAndOneRankIsNotCompared) {
  auto run = flipped(3, {});
  run.experiment.trainer.ema_decay = 0.9;
  EXPECT_EQ(difference_in(run), "");
  EXPECT_EQ(difference_in(flipped(1, {0})), "");
}

}  // namespace
}  // namespace ddprun::testing
