// SPDX-License-Identifier: MIT
// Training steps captured and replayed on a GPU, beside the same steps done one by one there.
#include "gpu/gpu_test.h"
#include "optimizers/training.h"
#include "support/toy_run.h"

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
using testing::same_bits;
using testing::texts_of;
using testing::ToyModel;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;
using testing::values_of;

constexpr int64_t kFullSteps = 8, kRagged = 103 % 12;  // of an epoch, which has one of so few samples besides

// Dropout draws from the GPU's generator.
class Dropping : public ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return ToyModel::forward(at::dropout(input, 0.2, is_training()));
  }
};

// A model with filters and running statistics.
class Convolving : public Dropping {
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

class CudaGraphsGpu : public testing::Gpu {
 protected:
  static ToyRun toy() {
    ToyRun run;
    run.experiment.seed = 42;
    run.experiment.trainer = {.max_epochs = 4, .global_batch = 12, .log_every = 1};
    run.experiment.trainer.deterministic = true;
    run.experiment.schedule = {.kind = ScheduleKind::kCosine, .warmup = {.steps = 4}};
    run.make_optimizer = [](double rate) {
      return from_yaml("sgd", "{momentum: 0.9, weight_decay: 1e-3, lr: " + std::to_string(rate) + "}");
    };
    run.make_backend = [](int64_t) { return load_cuda_backend(0); };  // in the thread that trains, whose stream it sets
    run.make_model = [] { return std::make_shared<Dropping>(); };
    return run;
  }

  static ToyResult with(ToyRun run, const char* cuda_graph) {
    run.experiment.trainer.cuda_graph = enum_of<CudaGraphMode>(cuda_graph).value();
    return train_toy(run);
  }

  // Returns the run with graphs, whose rows and weights are those of the run without.
  static ToyResult expect_the_bits_of_ordinary_steps(const ToyRun& run, const char* cuda_graph) {
    auto replayed = with(run, cuda_graph);
    const auto ordinary = with(run, "off");
    EXPECT_EQ(texts_of(replayed.rows), texts_of(ordinary.rows));
    EXPECT_TRUE(same_bits(replayed.weights[0], ordinary.weights[0]));
    EXPECT_EQ(ordinary.graph_state, "off");
    EXPECT_EQ(ordinary.replayed, 0);
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
};

using Change = std::function<void(ToyRun&)>;

struct Case {
  std::string name;
  Change change;
};
void PrintTo(const Case& item, std::ostream* out) { *out << item.name; }  // GoogleTest's name for this function

Change trainer(const std::function<void(TrainerConfig&)>& change) {
  return [=](ToyRun& run) { change(run.experiment.trainer); };
}

Change optimizer(const std::string& plugin, const std::string& options) {
  return [=](ToyRun& run) { run.make_optimizer = [=](double) { return from_yaml(plugin, options); }; };
}

template <class Kind>
Change model(const std::function<void(TrainerConfig&)>& change) {
  return [=](ToyRun& run) {
    run.make_model = [] { return std::make_shared<Kind>(); };
    change(run.experiment.trainer);
  };
}

void use_extras(ToyRun& run) {
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<testing::MaskedToyDataset>(train, val); };
  run.make_model = [] { return std::make_shared<testing::MaskedToyModel>(); };
}

std::vector<Case> cases() {
  std::vector<Case> cases{
      {"clipped_by_value", trainer([](auto& trainer) { trainer.clip_value = 0.01; })},
      {"in_shards_that_draw", trainer([](auto& trainer) { trainer.shards = 4; })},
      {"with_rows_of_several_steps", trainer([](auto& trainer) { trainer.log_every = 7; })},
      {"with_extras", use_extras},
      {"of_norms_in_shards", model<Convolving>([](auto& trainer) { trainer.shards = 3; })},
      {"of_norms_in_passes", model<Convolving>([](auto& trainer) {
         trainer.micro_batch = 6;
         trainer.on_nonfinite = OnNonfinite::kSkip;
       })},
      {"by_nesterov_in_groups",
       optimizer("sgd", "{lr: 0.02, momentum: 0.9, nesterov: true, groups: [{parameters: '*.bias', lr: 0.3}]}")},
      {"by_adam_with_amsgrad", optimizer("adam", "{lr: 0.02, amsgrad: true}")},
      {"by_muon_that_normalizes", optimizer("muon", "{lr: 0.02, normalize: true, others_lr: 0.03}")},
  };
  for (const std::string plugin : {"sgd", "adam", "adamw", "muon"}) {
    for (const std::string precision : {"fp32", "bf16", "fp16"}) {
      cases.push_back({plugin + "_in_" + precision, [=](ToyRun& run) {
                         optimizer(plugin, "{lr: 0.02}")(run);
                         run.experiment.trainer.precision = enum_of<PrecisionMode>(precision).value();
                         run.experiment.trainer.clip_norm = 0.5;
                         run.experiment.trainer.ema_decay = 0.9;
                       }});
    }
  }
  return cases;
}

class Replayed : public CudaGraphsGpu, public ::testing::WithParamInterface<Case> {};

TEST_P(Replayed, StepsRepeatTheBitsOfOrdinaryOnes) {
  auto run = toy();
  GetParam().change(run);
  const auto result = expect_the_bits_of_ordinary_steps(run, "on");
  EXPECT_EQ(result.replayed, 4 * kFullSteps - CudaGraphs::kWarmUp);
  EXPECT_EQ(result.graph_state, "replayed");
}

INSTANTIATE_TEST_SUITE_P(CudaGraphsGpu, Replayed, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// A bad sample in every epoch: from the third on its step is a replayed one.
TEST_F(CudaGraphsGpu, LeaveANonfiniteStepOutAsOrdinaryStepsDo) {
  for (const auto precision : {PrecisionMode::kFp32, PrecisionMode::kFp16}) {
    auto run = toy();
    run.experiment.trainer.shuffle = false;
    run.experiment.trainer.on_nonfinite = OnNonfinite::kSkip;
    run.experiment.trainer.precision = precision;
    run.experiment.trainer.loss_scale = 1024;
    run.experiment.trainer.ema_decay = 0.9;
    run.make_model = [] { return std::make_shared<Convolving>(); };
    run.make_dataset = [](int64_t train, int64_t val) {
      return std::make_shared<testing::PoisonedToyDataset>(train, val, std::vector<int64_t>{30});
    };
    const auto result = expect_the_bits_of_ordinary_steps(run, "on");
    EXPECT_EQ(result.replayed, 4 * kFullSteps - CudaGraphs::kWarmUp);
    EXPECT_EQ(values_of(result.rows, "train", "skipped_steps").back(), 4);
  }
}

TEST_F(CudaGraphsGpu, TwoShapesHaveTwoGraphsInOnePoolAndAPhaseOfTheirOwn) {
  auto run = toy();
  run.experiment.trainer.max_epochs = 16;
  const auto result = expect_the_bits_of_ordinary_steps(run, "on");
  EXPECT_EQ(result.replayed, 16 * (kFullSteps + 1) - 2 * CudaGraphs::kWarmUp);
  const auto rates = values_of(result.rows, "train", "lr");
  EXPECT_NE(rates[30], rates[31]) << "a rate that moves in replayed steps is what this is about";
  const auto seconds = values_of(result.measured, "system", "graph_seconds");
  ASSERT_FALSE(seconds.empty());
  EXPECT_EQ(seconds.front(), 0);
  EXPECT_GT(seconds.back(), 0);
}

class FirstEight : public Dropping {
 public:
  at::Tensor forward(const at::Tensor& input) override { return Dropping::forward(input.narrow(1, 0, 8)); }
};

TEST_F(CudaGraphsGpu, BatchesOfChangingShapesHaveGraphsOfTheirOwn) {
  auto run = toy();
  run.experiment.trainer.max_epochs = 6;
  run.make_dataset = [](int64_t train, int64_t val) {
    return std::make_shared<testing::WideningToyDataset>(train, val);
  };
  run.make_model = [] { return std::make_shared<FirstEight>(); };
  EXPECT_GT(expect_the_bits_of_ordinary_steps(run, "on").replayed, 0);
}

// Finds no memory in its third ragged batch, where running statistics and the generator have changed already.
class Starved : public Convolving {
 public:
  explicit Starved(bool starved) : left_(starved ? 3 : 0) {}
  at::Tensor forward(const at::Tensor& input) override {
    auto output = Convolving::forward(input);
    const bool ragged = is_training() && input.size(0) == kRagged;
    TORCH_CHECK_WITH(OutOfMemoryError, !(ragged && left_ > 0 && --left_ == 0), "no room");
    return output;
  }

 private:
  int64_t left_;
};

TEST_F(CudaGraphsGpu, GiveTheirMemoryToAnOrdinaryStepThatFindsNone) {
  auto run = toy();
  bool starved = true;  // the first run's alone
  run.make_model = [&] { return std::make_shared<Starved>(std::exchange(starved, false)); };
  const auto result = expect_the_bits_of_ordinary_steps(run, "auto");
  EXPECT_GT(result.replayed, 0);
  EXPECT_THAT(result.graph_state, HasSubstr("too little memory"));
}

TEST_F(CudaGraphsGpu, ResumedRunEndsWithTheBitsOfTheUndisturbedOne) {
  auto run = toy();
  run.experiment.trainer.ema_decay = 0.9;
  const auto [first, second] = testing::train_toy_twice(run, 20);
  EXPECT_GT(first.replayed, 0);
  EXPECT_GT(second.replayed, 0);
  EXPECT_TRUE(same_bits(second.weights[0], train_toy(run).weights[0]));
}

TEST_F(CudaGraphsGpu, NoStepWaitsForTheGpu) {
  for (const auto* cuda_graph : {"on", "off"}) {
    for (const auto* precision : {"fp32", "bf16", "fp16"}) {
      auto run = toy();
      run.experiment.trainer.precision = enum_of<PrecisionMode>(precision).value();
      run.experiment.trainer.clip_norm = 0.5;
      run.experiment.trainer.ema_decay = 0.9;
      EXPECT_NO_THROW(without_waits(run, cuda_graph)) << cuda_graph << " " << precision;
    }
  }
}

TEST_F(CudaGraphsGpu, AStepThatWaitsIsNoticed) {
  auto run = toy();
  run.make_model = [] {
    return std::make_shared<Waiting>([](const Batch& batch) { static_cast<void>(batch.input.sum().item<float>()); });
  };
  EXPECT_ANY_THROW(without_waits(run, "off"));
}

// A failed capture leaves nothing behind: dropout draws on, and allocations are ordinary ones.
TEST_F(CudaGraphsGpu, AModelThatWaitsTrainsWithoutAndNamesTheReason) {
  const std::vector<std::pair<std::function<void(const Batch&)>, const char*>> waits{
      {[](const Batch& batch) { static_cast<void>(batch.input.sum().item<float>()); }, "_local_scalar_dense"},
      {[](const Batch& batch) { static_cast<void>(batch.target.nonzero()); }, "nonzero"},
      {[](const Batch& batch) { static_cast<void>(batch.input.cpu()); }, ""},
      {[](const Batch& batch) { static_cast<void>(batch.index.sum()); }, "model"},
      {[](const Batch& batch) { static_cast<void>(at::rand({2}).to(batch.input.device())); },
       "random numbers on the host"}};
  for (const auto& [wait, reason] : waits) {
    auto run = toy();
    run.make_model = [wait = wait] { return std::make_shared<Waiting>(wait); };
    const auto result = expect_the_bits_of_ordinary_steps(run, "auto");
    EXPECT_EQ(result.replayed, 0) << reason;
    EXPECT_THAT(result.graph_state, HasSubstr(reason));
  }
}

// A capture ends with an error where another stream's work is not waited for.
class Straying : public Dropping {
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
    return Dropping::forward(input);
  }
};

TEST_F(CudaGraphsGpu, AModelThatLeavesAStreamUnjoinedTrainsWithoutAndIsNamed) {
  auto run = toy();
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
