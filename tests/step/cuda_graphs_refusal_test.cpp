// SPDX-License-Identifier: MIT
// Steps that cannot be replayed are not, and the run says why.
#include "step/replayed_toy.h"
#include "train/nonfinite_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::replayed_toy;
using testing::TempFolder;
using testing::ToyModel;
using testing::ToyRun;
using testing::train_toy;

// Why the run's steps are not replayed; with the setting on, the error says the same.
std::string reason_of(const ToyRun& run) {
  const auto result = train_toy(run);
  EXPECT_EQ(result.replayed, 0);
  const TempFolder plain_folder;
  EXPECT_TRUE(testing::same_bits(result.weights[0], train_toy(testing::without_device(run, plain_folder)).weights[0]));
  const TempFolder folder;
  auto strict = run;
  strict.folder = folder.path();
  strict.experiment.trainer.cuda_graph = CudaGraphMode::kOn;
  EXPECT_THAT(testing::error_of(strict), AllOf(HasSubstr("trainer.cuda_graph: on"), HasSubstr(result.graph_state)));
  return result.graph_state;
}

TEST(CudaGraphsRefusal, OnWithoutAGpuIsAnError) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  run.make_backend = nullptr;
  EXPECT_EQ(train_toy(run).graph_state, "no GPU");
  run.experiment.trainer.cuda_graph = CudaGraphMode::kOn;
  EXPECT_THAT(testing::error_of(run), HasSubstr("needs a GPU"));
}

TEST(CudaGraphsRefusal, AnOptimizerWhoseRatesStayOnTheHost) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  run.make_optimizer = [](double rate) { return std::make_shared<testing::ToySgd>(rate); };
  EXPECT_THAT(reason_of(run), HasSubstr("this optimizer"));
}

TEST(CudaGraphsRefusal, AnOptimizerThatReadsOverflows) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  run.make_optimizer = [](double rate) {
    return make_optimizer("sgd", {{"lr", std::to_string(rate)}, {"momentum", "0.9"}, {"dampening", "0.1"}});
  };
  EXPECT_THAT(reason_of(run), HasSubstr("this optimizer"));
}

// Says that it takes its rates from the device, and does not.
class Lying : public testing::ToySgd {
 public:
  using ToySgd::ToySgd;
  bool send_lrs() override { return true; }
};

TEST(CudaGraphsRefusal, ARateThatIsANumberOfTheHostAllTheSame) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  run.make_optimizer = [](double rate) { return std::make_shared<Lying>(rate); };
  EXPECT_THAT(reason_of(run), AllOf(HasSubstr("operators change from step to step"), HasSubstr("aten::sub_")));
}

// Its loss has a factor of the host that changes from the given call on.
class Counting : public ToyModel {
 public:
  explicit Counting(int64_t from) : from_(from) {}
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = ToyModel::step(batch, objective);
    if (is_training() && ++calls_ >= from_) step.loss = step.loss * (1 + 0.001 * static_cast<double>(calls_));
    return step;
  }

 private:
  int64_t from_, calls_ = 0;
};

TEST(CudaGraphsRefusal, AModelWithANumberThatCountsSteps) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  run.make_model = [] { return std::make_shared<Counting>(1); };
  EXPECT_THAT(reason_of(run), HasSubstr("aten::mul"));
}

// What a GPU would not see: the test's device does, or the tests of replayed steps would show nothing.
TEST(CudaGraphsRefusal, ANumberThatChangesLaterFailsOnTheTestsDevice) {
  const TempFolder folder;
  auto run = replayed_toy(folder);
  run.make_model = [] { return std::make_shared<Counting>(25); };
  EXPECT_THROW(train_toy(run), std::runtime_error);
}

TEST(CudaGraphsRefusal, ABackendThatCannotRecordOnAnyRank) {
  for (const int64_t ranks : {1, 3}) {
    const TempFolder folder;
    auto run = replayed_toy(folder, ranks);
    run.make_backend = [ranks](int64_t rank) {
      return std::make_shared<testing::ReplayingBackend>(rank == ranks - 1 ? 0 : -1);
    };
    EXPECT_EQ(reason_of(run), "this device cannot capture");
  }
}

TEST(CudaGraphsRefusal, TooLittleMemoryBesideTheRecordedStep) {
  for (const int64_t ranks : {1, 2}) {
    const TempFolder folder;
    auto run = replayed_toy(folder, ranks);
    const auto of_last_rank = [&](int64_t bytes) {
      return
          [=](int64_t rank) { return std::make_shared<testing::ReplayingBackend>(-1, rank == ranks - 1 ? bytes : 0); };
    };
    run.make_backend = of_last_rank(testing::ReplayingBackend::kMemory / 2 + 1);
    EXPECT_THAT(reason_of(run), HasSubstr("a captured step keeps"));
    const TempFolder enough;
    run.folder = enough.path();
    run.make_backend = of_last_rank(testing::ReplayingBackend::kMemory / 2);
    EXPECT_GT(train_toy(run).replayed, 0);
  }
}

TEST(CudaGraphsRefusal, AnExchangeThatCannotBeRecordedEndsTheRunWithAdvice) {
  const TempFolder folder;
  auto run = replayed_toy(folder, 2);
  run.make_backend = [](int64_t rank) { return std::make_shared<testing::ReplayingBackend>(rank == 1 ? 1 : -1); };
  EXPECT_THAT(testing::error_of(run),
              AllOf(HasSubstr("this device cannot capture"), HasSubstr("trainer.cuda_graph=off")));
}

TEST(CudaGraphsRefusal, SettingsThatNeedTheHost) {
  const std::vector<std::pair<const char*, std::function<void(TrainerConfig&)>>> settings{
      {"find_unused_parameters", [](auto& trainer) { trainer.find_unused_parameters = true; }},
      {"gradient_compression", [](auto& trainer) { trainer.gradient_compression = GradientCompression::kFp16; }}};
  for (const auto& [name, set] : settings) {
    const TempFolder folder;
    auto run = replayed_toy(folder, 2, 1);
    set(run.experiment.trainer);
    EXPECT_THAT(reason_of(run), HasSubstr(name));
  }
  const TempFolder folder;
  auto run = replayed_toy(folder, 1, 1);
  run.devices = 2;
  EXPECT_THAT(reason_of(run), HasSubstr("strategy dp"));
}

// Inputs of one more feature from a step on; the model takes the first eight.
class Widening : public testing::ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  void augment(Batch& batch, const AugmentKey& /*key*/) const override {
    if (batch.index.eq(0).any().item<bool>()) batch.input = at::constant_pad_nd(batch.input, {0, 1});
  }
};

class FirstEight : public ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override { return ToyModel::forward(input.narrow(1, 0, 8)); }
};

TEST(CudaGraphsRefusal, BatchesOfChangingShapesHaveGraphsOfTheirOwnOnOneRank) {
  const TempFolder folder, plain_folder;
  auto run = replayed_toy(folder, 1, 6);
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<Widening>(train, val); };
  run.make_model = [] { return std::make_shared<FirstEight>(); };
  const auto result = train_toy(run);
  EXPECT_GT(result.replayed, 0);
  EXPECT_TRUE(testing::same_bits(result.weights[0], train_toy(testing::without_device(run, plain_folder)).weights[0]));
}

TEST(CudaGraphsRefusal, BatchesOfChangingShapesOnSeveralRanks) {
  const TempFolder folder;
  auto run = replayed_toy(folder, 2, 6);
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<Widening>(train, val); };
  run.make_model = [] { return std::make_shared<FirstEight>(); };
  EXPECT_THAT(reason_of(run), HasSubstr("different shapes"));
}

}  // namespace
}  // namespace ddprun
