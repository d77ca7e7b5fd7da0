// SPDX-License-Identifier: MIT
#include "features/verify_shards/shard_check.h"

#include "features/verify_shards/verify_shards_section.h"
#include "support/error_of.h"
#include "support/toy_run.h"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using testing::MaskedToyDataset;
using ::testing::MatchesRegex;
using testing::on_ranks;
using testing::ToyDataset;
using testing::ToyRun;
using testing::train_toy;

// One file of it is another than the other nodes'.
class StaleDataset : public ToyDataset {
 public:
  StaleDataset(Split split, int64_t sample) : ToyDataset(100, 40), split_(split), sample_(sample) {}

  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = ToyDataset::get(split, indices);
    for (size_t i = 0; i < indices.size(); ++i) {
      if (split == split_ && indices[i] == sample_) batch.target[static_cast<int64_t>(i)] += 1;
    }
    return batch;
  }

 private:
  Split split_;
  int64_t sample_;
};

// Runs `check` on three ranks, the last of which has the other data.
void on_three(const Dataset& others, const std::function<void(const Dataset&, Communicator&)>& check) {
  const ToyDataset data(100, 40);
  on_ranks(3, [&](Communicator& communicator) {
    check(communicator.world().rank == 2 ? others : static_cast<const Dataset&>(data), communicator);
  });
}

std::string reported(const Dataset& data, Communicator& communicator) {
  return error_of([&] { require_same_samples(data, communicator); });
}

TEST(RequireSameSamples, NamesTheRankAndTheSampleThatDiffers) {
  on_three(ToyDataset(100, 40),
           [](const Dataset& data, Communicator& communicator) { EXPECT_EQ(reported(data, communicator), ""); });
  on_three(StaleDataset(Split::kVal, 0), [](const Dataset& data, Communicator& communicator) {
    EXPECT_THAT(reported(data, communicator),
                MatchesRegex("dataset: rank 2 on .* has validation sample 0 with SHA-256 .*; "
                             "rank 0 on .* has validation sample 0 with SHA-256 .*"));
  });
}

class StaleMask : public MaskedToyDataset {
 public:
  StaleMask() : MaskedToyDataset(100, 40) {}
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = MaskedToyDataset::get(split, indices);
    batch.extras["mask"][0][3].logical_not_();
    return batch;
  }
};

TEST(RequireSameSamples, NamesTheSampleWhoseExtraDiffers) {
  const MaskedToyDataset data(100, 40);
  on_ranks(2, [&](Communicator& communicator) {
    const StaleMask stale;
    const auto& mine = communicator.world().rank == 1 ? static_cast<const Dataset&>(stale) : data;
    EXPECT_THAT(reported(mine, communicator), HasSubstr("has training sample 0 with SHA-256 "));
  });
}

// As where a run was stopped between an epoch's last step and its evaluation.
TEST(ShardCheck, HasNothingToSayOfAnEpochThatAnotherAttemptHasTrained) {
  on_three(ToyDataset(100, 40), [](const Dataset& data, Communicator& communicator) {
    ShardCheck proof(communicator, {std::shared_ptr<const Dataset>(), &data}, {100, 20, {}}, /*first_step=*/10);
    EXPECT_NO_THROW(proof.check(/*epoch=*/2, {}));
  });
}

TEST(ShardCheck, ComparesOtherSamplesInEachEpoch) {
  on_three(StaleDataset(Split::kTrain, 50), [](const Dataset& data, Communicator& communicator) {
    Experiment experiment;
    experiment.trainer.shuffle = false;
    const StepPlan plan{100, 100, {}};
    const auto slice = plan.rank_slice(plan.global_slice(0), communicator.world().rank, communicator.world().size);
    ShardCheck proof(communicator, {std::shared_ptr<const Dataset>(), &data}, plan, 0);
    int found = 0;
    for (int64_t epoch = 1; epoch <= 4; ++epoch) {
      proof.add({.batch = {.index = at::arange(slice.begin, slice.end)}});
      found += error_of([&] { proof.check(epoch, experiment); }).empty() ? 0 : 1;
    }
    EXPECT_GE(found, 1);
  });
}

TEST(VerifyShards, ProvesTheShardsAtEachEpochsEnd) {
  ToyRun run{.ranks = 3, .train_samples = 25};  // a last batch of one: two ranks borrow
  run.experiment.trainer = {.max_epochs = 2, .global_batch = 12, .log_every = 100};
  run.experiment.features.set(VerifyShardsConfig{.on = true});
  ::testing::internal::CaptureStderr();
  train_toy(run);
  const auto text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("epoch 1 rank 2: 8 samples, sha256 "));
  EXPECT_THAT(text, HasSubstr("epoch 2: the ranks' samples together are the epoch's"));
}

}  // namespace
}  // namespace ddprun
