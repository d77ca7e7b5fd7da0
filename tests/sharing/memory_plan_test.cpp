// SPDX-License-Identifier: MIT
#include "sharing/memory_plan.h"

#include "support/toy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMegabyte = 1'000'000;

at::Tensor of_megabytes(int64_t count) { return at::empty({count * kMegabyte}, at::kByte); }

TEST(TensorMemory, IsThatOfTheTensorsThatAreThereAndTheMostAtOnce) {
  const auto before = of_megabytes(3);
  TensorMemory memory;
  auto kept = of_megabytes(2);
  { const auto passing = of_megabytes(5); }
  EXPECT_EQ(memory.now(), 2 * kMegabyte);
  EXPECT_EQ(memory.take_peak(), 7 * kMegabyte);
  kept.reset();
  EXPECT_EQ(memory.now(), 0);
}

// Keeps two tensors of a matrix's shape, one of another's, and a number of each.
class Remembers final : public Optimizer {
 public:
  Remembers() : Optimizer(0.1) {}

  void step() override {
    for (const auto& [name, value] : groups().front().parameters) {
      if (!value.grad().defined()) continue;
      ++steps_;
      state_[name + "/mean"] = at::zeros_like(value);
      if (value.dim() > 1) state_[name + "/square"] = at::zeros_like(value);
      state_[name + "/step"] = at::zeros({}, at::kLong);
    }
  }
  OptimizerState state() const override { return state_; }
  void load_state(const OptimizerState& state) override { state_ = state; }

  int64_t steps_ = 0;  // of parameters

 private:
  OptimizerState state_;
};

TEST(OptimizerBytes, AreThoseOfAllParametersFromAStepOfTheSmallest) {
  Remembers optimizer;
  optimizer.start({{"big.weight", torch::zeros({100, 50}).requires_grad_()},
                   {"small.weight", torch::zeros({4, 2}).requires_grad_()},
                   {"big.bias", torch::zeros({100}).requires_grad_()},
                   {"small.bias", torch::zeros({4}).requires_grad_()},
                   {"frozen.bias", torch::zeros({1})}});
  EXPECT_EQ(optimizer_bytes(optimizer), (5000 + 8) * 2 * 4 + 104 * 4 + 4 * 8);
  EXPECT_EQ(optimizer.steps_, 2);
  for (const auto& parameter : optimizer.groups().front().parameters) EXPECT_FALSE(parameter.value.grad().defined());
}

// Convolutions and a normalization, whose activations are most of what a step takes.
torch::nn::Sequential filters() {
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)),
                               torch::nn::BatchNorm2d(16), torch::nn::ReLU(),
                               torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 16, 3).padding(1)), torch::nn::ReLU(),
                               torch::nn::Flatten(), torch::nn::Linear(16 * 32 * 32, 100));
}

// Of its few activations four samples show nothing beside the gradients of its weights.
torch::nn::Sequential heavy() {
  return torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(3 * 32 * 32, 256), torch::nn::Tanh(),
                               torch::nn::Linear(256, 256), torch::nn::Tanh());
}

// Has gradients as large as the activations of a few hundred samples.
torch::nn::Sequential many_layers() {
  torch::nn::Sequential layers(torch::nn::Flatten(), torch::nn::Linear(3 * 32 * 32, 256));
  for (int i = 0; i < 12; ++i) {
    layers->push_back(torch::nn::GELU());
    layers->push_back(torch::nn::Linear(256, 256));
  }
  return layers;
}

class Wrapped final : public Model {
 public:
  explicit Wrapped(torch::nn::Sequential net) : net_(register_module("net", std::move(net))) {}
  at::Tensor forward(const at::Tensor& input) override { return net_->forward(input); }

 private:
  torch::nn::Sequential net_;
};

at::Tensor loss_of(Model& model, int64_t samples) {
  return model.forward(at::ones({samples, 3, 32, 32})).square().mean();
}

MemoryPlan plan_of(Model& model, const TrainerConfig& config = {}) {
  testing::ToySgd optimizer(0.1);
  std::vector<NamedParameter> parameters;
  for (const auto& one : model.named_parameters()) parameters.push_back({one.key(), one.value()});
  optimizer.start(parameters);
  return plan_memory(model, optimizer, config, [&](int64_t samples) { return loss_of(model, samples); });
}

// A step's gradients, and the most that it has besides weights and the optimizer's state.
void expect_within_a_tenth(Model& model, int64_t samples) {
  auto planned = plan_of(model);
  const auto others = planned.weights + planned.optimizer;
  model.zero_grad(/*set_to_none=*/true);
  TensorMemory memory;
  for (const bool keeps : {false, true}) {  // the gradients of a first part, and those of a second added to them
    loss_of(model, samples).backward();
    planned.keeps_gradients = keeps;
    const auto peak = static_cast<double>(memory.take_peak());
    EXPECT_NEAR(static_cast<double>(planned.total(samples) - others), peak, 0.1 * peak) << samples << keeps;
  }
  model.zero_grad(/*set_to_none=*/true);
}

TEST(Plan, OfFewSamplesSaysTheActivationsOfManyWithinATenth) {
  Wrapped filtering(filters()), weighing(heavy()), deep(many_layers());
  for (const int64_t samples : {32, 64}) expect_within_a_tenth(filtering, samples);
  for (const int64_t samples : {1024, 4096, 16384}) expect_within_a_tenth(weighing, samples);
  for (const int64_t samples : {16, 128, 512, 2048}) expect_within_a_tenth(deep, samples);
}

TEST(Plan, CountsActivationsThatGoBeforeTheGradientsComeOnlyWhereThoseAreThereAlready) {
  Wrapped deep(many_layers());
  auto planned = plan_of(deep);
  EXPECT_THAT(text_of(planned, 128), Not(HasSubstr("of which")));
  const auto kept = planned.total(128);
  planned.keeps_gradients = false;
  EXPECT_LT(planned.total(128), kept);
  EXPECT_GE(planned.total(128), planned.held());
  EXPECT_THAT(text_of(planned, 128), ContainsRegex(", of which [0-9.]+ MB go before all gradients are there"));
}

TEST(KeepsGradients, WithOthersAndOverPartsOfABatch) {
  EXPECT_FALSE(keeps_gradients({.global_batch = 32}, 1));
  EXPECT_FALSE(keeps_gradients({.global_batch = 32, .micro_batch = 32}, 1));
  EXPECT_FALSE(keeps_gradients({.batch_per_worker = 32}, 1));
  EXPECT_TRUE(keeps_gradients({.global_batch = 32, .micro_batch = 31}, 1));
  EXPECT_TRUE(keeps_gradients({.global_batch = 32, .shards = 4}, 1));
  EXPECT_TRUE(keeps_gradients({.batch_per_worker = 32}, 2));
}

TEST(Plan, CountsWeightsGradientsMomentumAndAverages) {
  Wrapped model(filters());
  const auto planned = plan_of(model, {.ema_decay = 0.9});
  int64_t numbers = 0;
  for (const auto& parameter : model.parameters()) numbers += parameter.numel();
  const int64_t buffers = 16 * 4 * 2 + 8;  // mean, variance, the number of batches
  EXPECT_EQ(planned.weights, numbers * 4 + buffers);
  EXPECT_EQ(planned.gradients, numbers * 4);
  EXPECT_EQ(planned.optimizer, numbers * 4);
  EXPECT_EQ(planned.averages, numbers * 4);
  for (const auto& parameter : model.parameters()) EXPECT_FALSE(parameter.grad().defined());
  EXPECT_THAT(text_of(planned, 64), HasSubstr("optimizer 6.6 MB, averages 6.6 MB, activations"));
  EXPECT_THAT(text_of(planned, 1), HasSubstr("(1 sample at once, "));
  EXPECT_EQ(planned.saved, planned.weights + numbers * 8);
  EXPECT_EQ(saving_text(planned), ", and 20 MB more of worker 0 while it saves");
  auto shared = planned;
  shared.share(4, 0.25);
  EXPECT_EQ(shared.optimizer, numbers);
  EXPECT_EQ(shared.saved, shared.weights + numbers * 2);
  EXPECT_EQ(saving_text(shared), ", and 9.8 MB more of worker 0 while it saves, 3.3 MB of each other");
}

TEST(SamplesAtOnce, AreOfAWorkersPartAMicroBatchOrAShard) {
  EXPECT_EQ(samples_at_once({.global_batch = 100}, 3), 34);
  EXPECT_EQ(samples_at_once({.global_batch = 100, .micro_batch = 8}, 3), 8);
  EXPECT_EQ(samples_at_once({.global_batch = 100, .shards = 8}, 3), 13);
  EXPECT_EQ(samples_at_once({.batch_per_worker = 32}, 3), 32);
}

}  // namespace
}  // namespace ddprun
