// SPDX-License-Identifier: MIT
// Training steps captured and replayed on a GPU, beside the same steps done one by one there.
#include "gpu/gpu_test.h"
#include "step/replayed_toy.h"

#include <ATen/ops/dropout.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using testing::HostWaits;
using testing::numbers;
using testing::same_bits;
using testing::TempFolder;
using testing::ToyModel;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;

class CudaGraphsGpu : public testing::Gpu {
 protected:
  ToyRun toy(const TempFolder& folder) const {
    auto run = testing::replayed_toy(folder);
    run.experiment.trainer.deterministic = true;
    run.make_backend = [](int64_t) { return load_cuda_backend(0); };  // in the thread that trains, whose stream it sets
    run.make_model = [] { return std::make_shared<Dropping>(); };
    return run;
  }

  static ToyResult with(ToyRun run, const char* cuda_graph) {
    const TempFolder folder;
    run.folder = folder.path();
    run.experiment.trainer.cuda_graph = enum_of<CudaGraphMode>(cuda_graph).value();
    return train_toy(run);
  }

  // Returns the run with graphs, whose rows and weights are those of the run without.
  static ToyResult expect_the_bits_of_ordinary_steps(const ToyRun& run, const char* cuda_graph) {
    auto replayed = with(run, cuda_graph);
    const auto ordinary = with(run, "off");
    EXPECT_EQ(numbers(replayed.rows), numbers(ordinary.rows));
    EXPECT_TRUE(same_bits(replayed.weights[0], ordinary.weights[0]));
    return replayed;
  }

  // `run` with the host forbidden to wait for the GPU from the third epoch's second step on, but in its last, whose
  // metrics are read.
  static ToyResult without_waits(ToyRun run, const char* cuda_graph) {
    HostWaits waits;
    run.experiment.trainer.log_every = 9;
    run.stop = [&waits](int64_t, int64_t step) {
      waits.forbid(step > 18 && step < 26);
      return false;
    };
    return with(run, cuda_graph);
  }

  // Dropout draws from the GPU's generator.
  class Dropping : public ToyModel {
   public:
    at::Tensor forward(const at::Tensor& input) override {
      return ToyModel::forward(at::dropout(input, 0.2, is_training()));
    }
  };

  // A model with filters and running statistics.
  class Filtering : public Dropping {
   public:
    void prepare(const DataSpec& data) override {
      Dropping::prepare(data);
      filters_ = register_module("filters", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
      norm_ = register_module("norm", torch::nn::BatchNorm2d(4));
    }
    at::Tensor forward(const at::Tensor& input) override {
      const auto image = input.view({-1, 1, 2, 4});
      return Dropping::forward(torch::relu(norm_(filters_(image))).mean(1).flatten(1));
    }

   private:
    torch::nn::Conv2d filters_{nullptr};
    torch::nn::BatchNorm2d norm_{nullptr};
  };

  // Waits for the GPU in each step of training, in one way or another.
  class Waiting : public Dropping {
   public:
    explicit Waiting(std::function<void(const Batch&)> wait) : wait_(std::move(wait)) {}
    Step step(const Batch& batch, const Objective& objective) override {
      if (is_training()) wait_(batch);
      return Dropping::step(batch, objective);
    }

   private:
    std::function<void(const Batch&)> wait_;
  };
};

TEST_F(CudaGraphsGpu, RepeatTheBitsOfOrdinarySteps) {
  for (const auto* plugin : {"sgd", "adam", "adamw", "muon"}) {
    for (const auto* precision : {"fp32", "bf16", "fp16"}) {
      const TempFolder folder;
      auto run = toy(folder);
      run.experiment.trainer.precision = enum_of<PrecisionMode>(precision).value();
      run.experiment.trainer.clip_norm = 0.5;
      run.experiment.trainer.ema_decay = 0.9;
      run.make_optimizer = [plugin](double rate) { return make_optimizer(plugin, {{"lr", std::to_string(rate / 5)}}); };
      const auto result = expect_the_bits_of_ordinary_steps(run, "on");
      EXPECT_EQ(result.replayed, 4 * 8 - CudaGraphs::kWarmUp) << plugin << " " << precision;
    }
  }
}

TEST_F(CudaGraphsGpu, RepeatTheBitsOfFiltersAndNormsInSeveralPasses) {
  const TempFolder folder;
  auto run = toy(folder);
  run.make_model = [] { return std::make_shared<Filtering>(); };
  run.experiment.trainer.micro_batch = 6;
  run.experiment.trainer.on_nonfinite = OnNonfinite::kSkip;
  EXPECT_GT(expect_the_bits_of_ordinary_steps(run, "on").replayed, 0);
}

TEST_F(CudaGraphsGpu, ShardsThatDrawRepeatTheBitsOfOrdinarySteps) {
  const TempFolder folder;
  auto run = toy(folder);
  run.experiment.trainer.shards = 4;
  const auto replayed = expect_the_bits_of_ordinary_steps(run, "on");
  EXPECT_GT(replayed.replayed, 0);
}

TEST_F(CudaGraphsGpu, TwoShapesHaveTwoGraphsInOnePool) {
  const TempFolder folder;
  auto run = toy(folder);
  run.experiment.trainer.max_epochs = 16;
  EXPECT_EQ(expect_the_bits_of_ordinary_steps(run, "on").replayed, 16 * 9 - 2 * CudaGraphs::kWarmUp);
}

TEST_F(CudaGraphsGpu, ResumedRunEndsWithTheBitsOfTheUndisturbedOne) {
  const TempFolder whole_folder, folder;
  auto whole = toy(whole_folder), cut = whole;
  cut.folder = folder.path();
  auto rest = cut;
  cut.stop = [](int64_t, int64_t step) { return step >= 20; };
  rest.resume_from = train_toy(cut).end.checkpoint;
  const auto second = train_toy(rest);
  EXPECT_GT(second.replayed, 0);
  EXPECT_TRUE(same_bits(second.weights[0], train_toy(whole).weights[0]));
}

TEST_F(CudaGraphsGpu, NoStepWaitsForTheGpu) {
  for (const auto* cuda_graph : {"on", "off"}) {
    for (const auto* precision : {"fp32", "bf16", "fp16"}) {
      const TempFolder folder;
      auto run = toy(folder);
      run.experiment.trainer.precision = enum_of<PrecisionMode>(precision).value();
      run.experiment.trainer.clip_norm = 0.5;
      run.experiment.trainer.ema_decay = 0.9;
      EXPECT_NO_THROW(without_waits(run, cuda_graph)) << cuda_graph << " " << precision;
    }
  }
}

TEST_F(CudaGraphsGpu, AStepThatWaitsIsNoticed) {
  const TempFolder folder;
  auto run = toy(folder);
  run.make_model = [] {
    return std::make_shared<Waiting>([](const Batch& batch) { static_cast<void>(batch.input.sum().item<float>()); });
  };
  EXPECT_ANY_THROW(without_waits(run, "off"));
}

// A failed capture leaves nothing behind: dropout draws on, and allocations are ordinary ones.
TEST_F(CudaGraphsGpu, AModelThatWaitsTrainsWithoutAndTheReasonIsTold) {
  const std::vector<std::pair<std::function<void(const Batch&)>, const char*>> waits{
      {[](const Batch& batch) { static_cast<void>(batch.input.sum().item<float>()); }, "_local_scalar_dense"},
      {[](const Batch& batch) { static_cast<void>(batch.target.nonzero()); }, "nonzero"},
      {[](const Batch& batch) { static_cast<void>(batch.input.cpu()); }, ""},
      {[](const Batch& batch) { static_cast<void>(batch.index.sum()); }, "model"},
      {[](const Batch& batch) { static_cast<void>(at::rand({2}).to(batch.input.device())); },
       "random numbers on the host"}};
  for (const auto& [wait, reason] : waits) {
    const TempFolder folder;
    auto run = toy(folder);
    run.make_model = [wait = wait] { return std::make_shared<Waiting>(wait); };
    const auto result = expect_the_bits_of_ordinary_steps(run, "auto");
    EXPECT_EQ(result.replayed, 0) << reason;
    EXPECT_THAT(result.graph_state, HasSubstr(reason));
  }
}

// A capture ends with an error where another stream's work is not waited for.
class Straying : public testing::ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    if (is_training()) {
      const c10::impl::VirtualGuardImpl gpu(input.device().type());
      const auto side = gpu.getStreamFromGlobalPool(input.device());
      c10::Event here(input.device().type());
      here.record(gpu.getStream(input.device()));
      here.block(side);
      const c10::StreamGuard on_side(side);
      at::ones({10}, input.options()).mul_(2);
    }
    return ToyModel::forward(at::dropout(input, 0.2, is_training()));
  }
};

TEST_F(CudaGraphsGpu, AModelThatLeavesAStreamUnjoinedTrainsWithoutAndIsTold) {
  const TempFolder folder;
  auto run = toy(folder);
  run.make_model = [] { return std::make_shared<Straying>(); };
  const auto result = expect_the_bits_of_ordinary_steps(run, "auto");  // dropout draws on
  EXPECT_EQ(result.replayed, 0);
  EXPECT_THAT(result.graph_state, ::testing::Not(::testing::AnyOf("", "replayed", "not yet", "off")));
}

TEST_F(CudaGraphsGpu, ExchangeOfOneRankIsRecordedToo) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto group = backend_->make_group_backend(store, 0, 1, 60);
  std::vector<at::Tensor> values{at::ones({1000}, at::TensorOptions(backend_->device()))};
  group->allreduce(values)->wait();
  const auto graph = backend_->capture([&](const auto&) {
    values[0].mul_(2);
    group->allreduce(values)->wait();
    return std::vector<at::Tensor>{values[0] + 1};
  });
  for (int i = 0; i < 3; ++i) graph->replay();
  EXPECT_EQ(graph->results()[0][7].item<float>(), 9);
}

}  // namespace
}  // namespace ddprun
