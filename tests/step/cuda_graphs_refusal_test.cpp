// SPDX-License-Identifier: MIT
// Steps that cannot be replayed are not, on any rank, and the run says why. Those that are replayed are tests/gpu's and
// tests/pretend_gpu's.
#include "optimizers/training.h"
#include "support/idle_backend.h"
#include "support/toy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::error_of_training;
using ::testing::HasSubstr;
using testing::ToyModel;
using testing::ToyRun;
using testing::train_toy;

// Computes on the CPU, and nothing when it captures.
class Capturing final : public testing::IdleBackend {
 public:
  static constexpr int64_t kMemory = 100;  // bytes

  // Its `first_failing`-th capture fails; each takes so much of the memory.
  explicit Capturing(int64_t first_failing = -1, int64_t bytes_of_a_graph = 0)
      : IdleBackend("none"), left_(first_failing), bytes_of_a_graph_(bytes_of_a_graph) {}

  std::vector<c10::Device> devices() const override { return {}; }
  DeviceMemory memory() const override { return {.free = kMemory - taken_, .reserved = taken_}; }
  std::unique_ptr<DeviceGraph> capture(const GraphWork& /*work*/) override {
    if (left_-- == 0) throw std::runtime_error("this device cannot capture\nand says more");
    taken_ += bytes_of_a_graph_;
    return nullptr;
  }

 private:
  int64_t left_, bytes_of_a_graph_, taken_ = 0;
};

// The backend of the last rank; the others' has no flaw.
void set_last_backend(ToyRun& run, int64_t first_failing, int64_t bytes_of_a_graph = 0) {
  run.make_backend = [=, ranks = run.ranks](int64_t rank) {
    return rank == ranks - 1 ? std::make_shared<Capturing>(first_failing, bytes_of_a_graph)
                             : std::make_shared<Capturing>();
  };
}

ToyRun captured_toy(int64_t ranks) {
  ToyRun run{.ranks = ranks};
  run.experiment.trainer = {.max_epochs = 3, .global_batch = 12, .log_every = 1};
  run.experiment.schedule = {.kind = ScheduleKind::kCosine, .warmup = {.steps = 4}};
  run.make_optimizer = [](double rate) { return from_yaml("sgd", "lr: " + std::to_string(rate)); };
  set_last_backend(run, -1);
  return run;
}

// Says that it takes its rates from the device, and does not.
class Lying : public testing::ToySgd {
 public:
  using ToySgd::ToySgd;
  bool send_lrs() override { return true; }
};

// Its loss has a factor of the host that changes from call to call.
class Counting : public ToyModel {
 public:
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = ToyModel::step(batch, objective);
    if (is_training()) step.loss = step.loss * (1 + 0.001 * static_cast<double>(++calls_));
    return step;
  }

 private:
  int64_t calls_ = 0;
};

class FirstEight : public ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override { return ToyModel::forward(input.narrow(1, 0, 8)); }
};

struct Refusal {
  const char* name;
  int64_t ranks;
  std::function<void(ToyRun&)> change;
  const char* reason;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }  // GoogleTest's name for this

const std::vector<Refusal> kRefusals{
    {"AnOptimizerWhoseRatesStayOnTheHost", 1,
     [](ToyRun& run) { run.make_optimizer = [](double lr) { return std::make_shared<testing::ToySgd>(lr); }; },
     "this optimizer"},
    {"AnOptimizerThatReadsOverflows", 1,
     [](ToyRun& run) {
       run.make_optimizer = [](double) { return from_yaml("sgd", "{momentum: 0.9, dampening: 0.1}"); };
     },
     "this optimizer"},
    {"ARateThatIsANumberOfTheHostAllTheSame", 1,
     [](ToyRun& run) { run.make_optimizer = [](double lr) { return std::make_shared<Lying>(lr); }; },
     "operators change from step to step.*aten::sub_"},
    {"AModelWithANumberThatCountsSteps", 1,
     [](ToyRun& run) { run.make_model = [] { return std::make_shared<Counting>(); }; }, "aten::mul"},
    {"SeveralGpusInOneProcess", 1, [](ToyRun& run) { run.devices = 2; }, "strategy dp"},
    {"ParametersThatAreLookedFor", 2, [](ToyRun& run) { run.experiment.trainer.find_unused_parameters = true; },
     "find_unused_parameters"},
    {"GradientsThatAreCompressed", 2,
     [](ToyRun& run) { run.experiment.trainer.gradient_compression = GradientCompression::kFp16; },
     "gradient_compression"},
    {"BatchesOfChangingShapes", 2,
     [](ToyRun& run) {
       run.experiment.trainer.max_epochs = 6;
       run.make_dataset = [](int64_t train, int64_t val) {
         return std::make_shared<testing::WideningToyDataset>(train, val);
       };
       run.make_model = [] { return std::make_shared<FirstEight>(); };
     },
     "different shapes"},
    {"ABackendThatCannotCapture", 1, [](ToyRun& run) { set_last_backend(run, 0); }, "^this device cannot capture$"},
    {"ABackendThatCannotCaptureOnOneRank", 3, [](ToyRun& run) { set_last_backend(run, 0); },
     "^this device cannot capture$"},
    {"TooLittleMemoryBesideTheCapturedStep", 1,
     [](ToyRun& run) { set_last_backend(run, -1, Capturing::kMemory / 2 + 1); }, "a captured step keeps"},
    {"TooLittleMemoryOnOneRank", 2, [](ToyRun& run) { set_last_backend(run, -1, Capturing::kMemory / 4 + 1); },
     "a captured step keeps"},
};

class CudaGraphsRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(CudaGraphsRefusal, TrainsWithoutAndNamesTheReason) {
  const auto& refusal = GetParam();
  auto run = captured_toy(refusal.ranks);
  refusal.change(run);
  const auto result = train_toy(run);
  EXPECT_THAT(result.graph_state, ContainsRegex(refusal.reason));
  EXPECT_EQ(result.replayed, 0);
  auto plain = run, strict = run;
  plain.make_backend = nullptr;
  EXPECT_TRUE(testing::same_bits(result.weights[0], train_toy(plain).weights[0]));
  strict.experiment.trainer.cuda_graph = CudaGraphMode::kOn;
  EXPECT_THAT(error_of_training(strict), AllOf(HasSubstr("trainer.cuda_graph: on"), HasSubstr(result.graph_state)));
}

INSTANTIATE_TEST_SUITE_P(Reasons, CudaGraphsRefusal, ::testing::ValuesIn(kRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CudaGraphs, HaveEnoughMemoryWhereAStepFitsBesideThem) {
  auto run = captured_toy(1);
  run.experiment.trainer.max_steps = CudaGraphs::kWarmUp + 2;  // with a ragged one, so that one is captured
  set_last_backend(run, -1, Capturing::kMemory / 2);
  EXPECT_EQ(train_toy(run).graph_state, "not yet");
}

TEST(CudaGraphs, OfAnExchangeThatCannotBeCapturedEndTheRunWithAdvice) {
  auto run = captured_toy(2);
  set_last_backend(run, 1);
  EXPECT_THAT(error_of_training(run),
              AllOf(HasSubstr("this device cannot capture"), HasSubstr("trainer.cuda_graph=off")));
}

}  // namespace
}  // namespace ddprun
