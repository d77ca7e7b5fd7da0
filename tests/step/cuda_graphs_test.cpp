// SPDX-License-Identifier: MIT
// Steps that are captured once and replayed are the steps that they were. The device is the CPU, which does the
// captured work once more, in the place of a GPU; that it asks for the same in each replay the work itself makes sure
// of.
#include "features/histograms/histograms_section.h"
#include "optimizers/from_yaml.h"
#include "step/replayed_toy.h"
#include "train/nonfinite_fixture.h"

#include <ATen/ops/dropout.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::numbers;
using testing::replayed_toy;
using testing::same_bits;
using testing::TempFolder;
using testing::ToyModel;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;
using testing::without_device;

constexpr int64_t kFullSteps = 8 * 4;  // of four epochs: each has a ragged one besides

// All rows and weights of the run are those of the same run without a device. Returns it.
ToyResult expect_the_bits_of_ordinary_steps(const ToyRun& run) {
  const TempFolder folder;
  auto replayed = train_toy(run);
  const auto ordinary = train_toy(without_device(run, folder));
  EXPECT_EQ(numbers(replayed.rows), numbers(ordinary.rows));
  for (size_t rank = 0; rank < replayed.weights.size(); ++rank)
    EXPECT_TRUE(same_bits(replayed.weights[rank], ordinary.weights[rank])) << "rank " << rank;
  return replayed;
}

TEST(CudaGraphs, RepeatTheBitsOfOrdinarySteps) {
  const TempFolder folder;
  const auto result = expect_the_bits_of_ordinary_steps(replayed_toy(folder));
  EXPECT_EQ(result.replayed, kFullSteps - CudaGraphs::kWarmUp);
  EXPECT_EQ(result.graph_state, "replayed");
  const auto rates = testing::values_of(result.rows, "train", "lr");
  EXPECT_NE(rates[30], rates[31]) << "a rate that moves in replayed steps is what this is about";
}

TEST(CudaGraphs, ReplayedStepsHaveTheirOwnExtras) {
  for (const int64_t ranks : {1, 2}) {
    const TempFolder folder;
    auto run = replayed_toy(folder, ranks);
    run.make_dataset = [](int64_t train, int64_t val) {
      return std::make_shared<testing::MaskedToyDataset>(train, val);
    };
    run.make_model = [] { return std::make_shared<testing::MaskedToyModel>(); };
    EXPECT_EQ(expect_the_bits_of_ordinary_steps(run).replayed, kFullSteps - CudaGraphs::kWarmUp);
  }
}

TEST(CudaGraphs, TheRaggedBatchHasItsOwnOnceItWasSeenOften) {
  const TempFolder folder;
  const auto result = expect_the_bits_of_ordinary_steps(replayed_toy(folder, 1, 15));
  EXPECT_EQ(result.replayed, 15 * 9 - 2 * CudaGraphs::kWarmUp);
}

TEST(CudaGraphs, SumsOfSeveralStepsAreNotWrittenOver) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  run.experiment.trainer.log_every = 7;
  expect_the_bits_of_ordinary_steps(run);
}

struct Case {
  std::string name;
  std::function<void(ToyRun&)> change;
};
void PrintTo(const Case& item, std::ostream* out) { *out << item.name; }  // GoogleTest's name for this function

std::function<void(ToyRun&)> optimizer(const std::string& plugin, const OptionTexts& options) {
  return [=](ToyRun& run) {
    run.make_optimizer = [=](double rate) {
      auto all = options;
      all.emplace_back("lr", std::to_string(rate / 5));
      return make_optimizer(plugin, all);
    };
  };
}

std::function<void(TrainerConfig&)> half() {
  return [](TrainerConfig& trainer) {
    trainer.precision = PrecisionMode::kFp16;
    trainer.loss_scale = 1024;
  };
}

std::function<void(ToyRun&)> trainer(const std::function<void(TrainerConfig&)>& change) {
  return [=](ToyRun& run) { change(run.experiment.trainer); };
}

std::vector<Case> cases() {
  return {
      {"ClippedByNorm", trainer([](auto& trainer) { trainer.clip_norm = 0.05; })},
      {"ClippedByValue", trainer([](auto& trainer) { trainer.clip_value = 0.01; })},
      {"WithAveragedWeights", trainer([](auto& trainer) { trainer.ema_decay = 0.9; })},
      {"InShards", trainer([](auto& trainer) { trainer.shards = 4; })},
      {"InShardsWithBatchNorm",
       [](ToyRun& run) {
         run.make_model = [] { return std::make_shared<testing::Normed>(); };
         run.experiment.trainer.shards = 3;
       }},
      {"InSeveralPasses", trainer([](auto& trainer) { trainer.micro_batch = 2; })},
      {"InBf16", trainer([](auto& trainer) { trainer.precision = PrecisionMode::kBf16; })},
      {"InFp16", trainer(half())},
      {"WithAdam", optimizer("adam", {{"amsgrad", "true"}})},
      {"WithAdamW", optimizer("adamw", {})},
      {"WithMuon", optimizer("muon", {{"normalize", "true"}, {"others_lr", "0.03"}})},
      {"WithNesterovInGroups",
       [](ToyRun& run) {
         run.make_optimizer = [](double) {
           return from_yaml("sgd",
                            "{lr: 0.02, momentum: 0.9, nesterov: true, groups: [{parameters: '*.bias', lr: 0.3}]}");
         };
       }},
      {"WithBatchNorm", [](ToyRun& run) { run.make_model = [] { return std::make_shared<testing::Normed>(); }; }},
      {"BroadcastingBuffers",
       [](ToyRun& run) {
         run.make_model = [] { return std::make_shared<testing::Normed>(); };
         run.experiment.trainer.broadcast_buffers = BroadcastBuffers::kEveryStep;
       }},
  };
}

class Replayed : public ::testing::TestWithParam<std::tuple<Case, int64_t>> {};

TEST_P(Replayed, StepsRepeatTheBitsOnAllRanks) {
  const auto& [item, ranks] = GetParam();
  const TempFolder folder;
  auto run = replayed_toy(folder, ranks);
  item.change(run);
  const auto result = expect_the_bits_of_ordinary_steps(run);
  EXPECT_EQ(result.replayed, kFullSteps - CudaGraphs::kWarmUp) << result.graph_state;
}

INSTANTIATE_TEST_SUITE_P(CudaGraphs, Replayed,
                         ::testing::Combine(::testing::ValuesIn(cases()), ::testing::Values(1, 2)),
                         [](const auto& item) {
                           return std::get<0>(item.param).name + "On" + std::to_string(std::get<1>(item.param));
                         });

// Three ranks, of which one has no sample in the ragged batch of 7 samples in passes of 1.
TEST(CudaGraphs, RanksOfUnequalPartsReplayTogether) {
  const TempFolder folder;
  auto run = replayed_toy(folder, 3, 14);
  run.train_samples = 8 * 12 + 2;
  expect_the_bits_of_ordinary_steps(run);
}

// Three ranks, of 3, 3 and 2 shards; in the ragged batch one has none.
TEST(CudaGraphs, RanksOfUnequalShardsReplayTogether) {
  const TempFolder folder;
  auto run = replayed_toy(folder, 3, 14);
  run.train_samples = 8 * 12 + 2;
  run.experiment.trainer.shards = 8;
  EXPECT_EQ(expect_the_bits_of_ordinary_steps(run).replayed, 14 * 9 - 2 * CudaGraphs::kWarmUp);
}

// A bad sample in every epoch: from the third on its step is a replayed one.
TEST(CudaGraphs, LeaveANonfiniteStepOutAsOrdinaryStepsDo) {
  for (const bool halved : {false, true}) {
    const TempFolder folder;
    auto run = testing::poisoned_toy(folder, "skip");
    run.make_optimizer = replayed_toy(folder).make_optimizer;
    run.make_backend = replayed_toy(folder).make_backend;
    run.experiment.trainer.max_epochs = 4;
    run.experiment.trainer.log_every = 1;
    if (halved) half()(run.experiment.trainer);
    testing::poison(run, {30});
    const auto result = expect_the_bits_of_ordinary_steps(run);
    EXPECT_EQ(result.replayed, 4 * 9 - CudaGraphs::kWarmUp);
    EXPECT_EQ(testing::values_of(result.rows, "train", "skipped_steps").back(), 4);
  }
}

// Draws from a generator, as a GPU's replay does: the numbers go on.
class Dropping : public ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return ToyModel::forward(at::dropout(input, 0.2, is_training()));
  }
};

TEST(CudaGraphs, EachShardDrawsFromItsOwnSeed) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  run.make_model = [] { return std::make_shared<Dropping>(); };
  run.experiment.trainer.shards = 5;
  EXPECT_EQ(expect_the_bits_of_ordinary_steps(run).replayed, kFullSteps - CudaGraphs::kWarmUp);
}

TEST(CudaGraphs, ResumedRunEndsWithTheBitsOfTheUndisturbedOne) {
  const TempFolder whole_folder, folder;
  auto whole = replayed_toy(whole_folder);
  whole.experiment.trainer.ema_decay = 0.9;
  whole.make_model = [] { return std::make_shared<Dropping>(); };
  auto cut = whole;
  cut.folder = folder.path();
  cut.stop = [](int64_t, int64_t step) { return step >= 20; };
  const auto expected = expect_the_bits_of_ordinary_steps(whole);
  const auto first = train_toy(cut);
  EXPECT_GT(first.replayed, 0);
  auto rest = whole;
  rest.folder = folder.path();
  rest.resume_from = first.end.checkpoint;
  const auto second = train_toy(rest);
  EXPECT_GT(second.replayed, 0);
  EXPECT_TRUE(same_bits(second.weights[0], expected.weights[0]));
}

// Finds no memory in its third ragged batch, where running statistics and the generator have changed already.
class Starved : public testing::Normed {
 public:
  explicit Starved(bool starved) : left_(starved ? 3 : 0) {}
  at::Tensor forward(const at::Tensor& input) override {
    auto output = Normed::forward(at::dropout(input, 0.2, is_training()));
    const bool ragged = is_training() && input.size(0) == 103 % 12;
    TORCH_CHECK_WITH(OutOfMemoryError, !(ragged && left_ > 0 && --left_ == 0), "no room");
    return output;
  }

 private:
  int64_t left_;
};

TEST(CudaGraphs, GiveTheirMemoryToAnOrdinaryStepThatFindsNone) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  bool starved = true;  // the first run's alone
  run.make_model = [&] { return std::make_shared<Starved>(std::exchange(starved, false)); };
  const auto result = expect_the_bits_of_ordinary_steps(run);
  EXPECT_GT(result.replayed, 0);
  EXPECT_THAT(result.graph_state, ::testing::HasSubstr("too little memory"));
}

TEST(CudaGraphs, WatchedStepsAreOrdinaryOnAllRanks) {
  const TempFolder folder;
  auto run = replayed_toy(folder, 2);
  run.experiment.features.set(HistogramsConfig{.every = {.steps = 5}});
  const auto result = expect_the_bits_of_ordinary_steps(run);
  EXPECT_EQ(result.histograms.size(), 4U * 9 / 5);
  EXPECT_GT(result.replayed, 0);
  EXPECT_LT(result.replayed, kFullSteps - CudaGraphs::kWarmUp);
}

TEST(CudaGraphs, OffMeansOff) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  run.experiment.trainer.cuda_graph = CudaGraphMode::kOff;
  const auto result = expect_the_bits_of_ordinary_steps(run);
  EXPECT_EQ(result.replayed, 0);
  EXPECT_EQ(result.graph_state, "off");
}

TEST(CudaGraphs, ReplayedStepsAreAPhaseOfTheirOwn) {
  const TempFolder folder;
  const auto run = replayed_toy(folder, 1, 6);
  const auto result = train_toy(run);
  ASSERT_FALSE(result.measured.empty());
  const auto graph = testing::values_of(result.measured, "system", "graph_seconds");
  EXPECT_EQ(graph.front(), 0);
  EXPECT_GT(graph.back(), 0);
}

}  // namespace
}  // namespace ddprun
