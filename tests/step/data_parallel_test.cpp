// SPDX-License-Identifier: MIT
// Several devices that are all the CPU: what they compute together is what one computes alone.
#include "step/data_parallel.h"

#include "comm/replicate.h"
#include "support/error_of.h"
#include "support/toy.h"
#include "weights/precision.h"

#include <ddprun/batch_norm.h>
#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace ddprun {
namespace {

using testing::MeanCrossEntropy;
using testing::ToyDataset;
using testing::ToyModel;

constexpr auto kCpu = c10::DeviceType::CPU;

template <class Kind, class... Arguments>
std::shared_ptr<Model> make(Arguments... arguments) {
  auto model = std::make_shared<Kind>(arguments...);
  model->prepare({.sample_shape = {8}, .classes = 3});
  return model;
}

// Each device has drawn weights of its own: refresh() must make them equal.
template <class Kind, class... Arguments>
std::vector<DataParallel::Copy> on_devices(int64_t devices, Arguments... arguments) {
  torch::manual_seed(5);
  std::vector<DataParallel::Copy> copies;
  for (int64_t i = 0; i < devices; ++i) copies.push_back({make<Kind>(arguments...), kCpu});
  return copies;
}

Batch batch_of(int64_t samples) {
  std::vector<int64_t> indices(samples);
  std::iota(indices.begin(), indices.end(), 0);
  return ToyDataset(100, 0).get(Split::kTrain, indices);
}

std::vector<at::Tensor> gradients(const Model& model) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : trainable_parameters(model)) gradients.push_back(parameter.value.grad());
  return gradients;
}

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

class OfDevices : public ::testing::TestWithParam<int64_t> {};

TEST_P(OfDevices, LossMetricsAndGradientsAreTheWholeBatchs) {
  const auto batch = batch_of(7);
  const MeanCrossEntropy objective;
  const auto alone = on_devices<ToyModel>(1).front().model;
  const auto expected = alone->step(batch, objective);
  expected.loss.backward();

  const auto copies = on_devices<ToyModel>(GetParam());
  DataParallel parallel(copies);
  parallel.refresh();
  const auto step = parallel.step(batch, objective);
  step.loss.backward();
  parallel.collect_gradients();

  EXPECT_NEAR(step.loss.item<double>(), expected.loss.item<double>(), 1e-6);
  ASSERT_EQ(step.metrics.size(), 1U);
  EXPECT_EQ(step.metrics[0].sum.item<double>(), expected.metrics[0].sum.item<double>());
  EXPECT_EQ(step.metrics[0].count, 7);
  EXPECT_LT(largest_difference(gradients(*copies[0].model), gradients(*alone)), 1e-6);
  for (size_t i = 1; i < copies.size(); ++i) {
    for (const auto& gradient : gradients(*copies[i].model)) EXPECT_FALSE(gradient.defined());
  }
}

// More devices than samples too.
INSTANTIATE_TEST_SUITE_P(Devices, OfDevices, ::testing::Values(1, 2, 3, 7, 9));

TEST(DataParallel, AddsTheGradientsOfSeveralPasses) {
  const MeanCrossEntropy objective;
  const auto alone = on_devices<ToyModel>(1).front().model;
  const auto copies = on_devices<ToyModel>(2);
  DataParallel parallel(copies);
  parallel.refresh();
  for (const auto samples : {5, 1, 4}) {
    alone->step(batch_of(samples), objective).loss.backward();
    parallel.step(batch_of(samples), objective).loss.backward();
  }
  parallel.collect_gradients();
  EXPECT_LT(largest_difference(gradients(*copies[0].model), gradients(*alone)), 1e-6);
}

TEST(DataParallel, RefreshDropsGradientsThatNobodyCollected) {
  const MeanCrossEntropy objective;
  const auto copies = on_devices<ToyModel>(2);
  DataParallel parallel(copies);
  parallel.step(batch_of(4), objective).loss.backward();
  parallel.refresh();
  for (const auto& gradient : gradients(*copies[1].model)) EXPECT_FALSE(gradient.defined());
}

// Counts its steps in a buffer, and normalises.
class Normalizing : public Model {
 public:
  void prepare(const DataSpec& data) override {
    norm_ = register_module("norm", BatchNorm(data.sample_shape.at(0)));
    output_ = register_module("output", torch::nn::Linear(data.sample_shape.at(0), data.classes));
  }
  at::Tensor forward(const at::Tensor& input) override { return output_(norm_(input)); }

 private:
  BatchNorm norm_{nullptr};
  torch::nn::Linear output_{nullptr};
};

TEST(DataParallel, RunningStatisticsAreThoseOfTheFirstDevicesPart) {
  const auto batch = batch_of(8);
  const MeanCrossEntropy objective;
  const auto alone = on_devices<Normalizing>(1).front().model;
  const auto copies = on_devices<Normalizing>(2);
  DataParallel parallel(copies);
  for (int step = 0; step < 2; ++step) {
    parallel.refresh();
    parallel.step(batch, objective);
    alone->step({batch.input.narrow(0, 0, 4), batch.target.narrow(0, 0, 4), batch.index}, objective);
  }
  EXPECT_EQ(largest_difference(copies[0].model->buffers(), alone->buffers()), 0);
}

TEST(DataParallel, RefreshCopiesParametersBuffersAndMode) {
  const auto copies = on_devices<Normalizing>(3);
  DataParallel parallel(copies);
  {
    const torch::NoGradGuard no_gradients;
    for (auto& tensor : state_tensors(*copies[0].model)) tensor.value.fill_(3);
  }
  copies[0].model->eval();
  parallel.refresh();
  for (const auto& [model, device] : copies) {
    EXPECT_FALSE(model->is_training());
    for (const auto& tensor : state_tensors(*model)) EXPECT_TRUE(tensor.value.eq(3).all().item<bool>()) << tensor.name;
  }
}

// A loss and metrics of its own, and nothing of the objective.
class OwnStep : public ToyModel {
 public:
  Step step(const Batch& batch, const Objective&) override {
    const auto squares = forward(batch.input).square().sum(1);
    return {.loss = squares.mean(),
            .metrics = {{.name = "squares", .sum = squares.detach().sum(), .count = batch.size()}},
            .counts = {{kConfusion, at::full({3, 3}, batch.size(), at::kLong)}}};
  }
};

TEST(DataParallel, UsesAModelsOwnStep) {
  const auto batch = batch_of(5);
  const auto expected = on_devices<OwnStep>(1).front().model->step(batch, MeanCrossEntropy());
  DataParallel parallel(on_devices<OwnStep>(2));
  parallel.refresh();
  const auto step = parallel.step(batch, MeanCrossEntropy());
  EXPECT_NEAR(step.loss.item<double>(), expected.loss.item<double>(), 1e-6);
  EXPECT_EQ(step.metrics[0].name, "squares");
  EXPECT_NEAR(step.metrics[0].sum.item<double>(), expected.metrics[0].sum.item<double>(), 1e-5);
  EXPECT_EQ(step.metrics[0].count, 5);
  EXPECT_TRUE(at::equal(step.counts[0].counts, expected.counts[0].counts));
}

// Throws, or reports a metric, where a sample of this number comes by.
class Picky : public ToyModel {
 public:
  Picky(int64_t thrown_at, int64_t measured_at) : thrown_at_(thrown_at), measured_at_(measured_at) {}
  Step step(const Batch& batch, const Objective& objective) override {
    const auto has = [&](int64_t index) { return batch.index.eq(index).any().item<bool>(); };
    if (batch.index.ge(thrown_at_).any().item<bool>()) {
      throw UserError("no sample " + std::to_string(batch.index.max().item<int64_t>()));
    }
    auto step = ToyModel::step(batch, objective);
    if (has(measured_at_)) step.metrics.front().name = "other";
    return step;
  }

 private:
  int64_t thrown_at_, measured_at_;
};

std::string what_step_throws(DataParallel parallel) {
  return error_of([&] { parallel.step(batch_of(6), MeanCrossEntropy()); });
}

TEST(DataParallel, ThrowsWhatTheFirstFailingCopyThrew) {
  for (const int64_t copy : {2, 1, 0}) {
    const auto words = "model: no sample " + std::to_string(2 * copy + 1);
    EXPECT_EQ(what_step_throws(DataParallel(on_devices<Picky>(3, 2 * copy, -1))), words);
  }
}

TEST(DataParallel, RefusesOtherMetricsOnAnotherDevice) {
  EXPECT_THAT(what_step_throws(DataParallel(on_devices<Picky>(2, 9, 5))), ::testing::HasSubstr("other metrics"));
}

TEST(DataParallel, RefusesACopyThatIsAnotherNetwork) {
  auto copies = on_devices<ToyModel>(1);
  copies.push_back({make<Normalizing>(), kCpu});
  EXPECT_THROW(DataParallel{copies}, UserError);
}

// Notes the thread, the type of its predictions and whether they have a graph.
class Witness : public ToyModel {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    auto prediction = ToyModel::forward(input);
    static thread_local int64_t forwards_here = 0;
    forwards_of_thread = ++forwards_here;
    thread = std::this_thread::get_id();
    type = prediction.scalar_type();
    graph = prediction.requires_grad();
    return prediction.to(at::kFloat);
  }
  std::thread::id thread;
  int64_t forwards_of_thread = 0;
  c10::ScalarType type{};
  bool graph = false;
};

TEST(DataParallel, CopiesRunInThreadsWithTheCallersAutocastAndGradientMode) {
  const auto copies = on_devices<Witness>(2);
  DataParallel parallel(copies);
  const auto look = [&] {
    parallel.step(batch_of(4), MeanCrossEntropy());
    return std::pair(std::static_pointer_cast<Witness>(copies[0].model),
                     std::static_pointer_cast<Witness>(copies[1].model));
  };
  {
    const auto autocast = Precision({.precision = PrecisionMode::kFp16}, kCpu).autocast();
    const auto [first, second] = look();
    EXPECT_EQ(first->type, at::kHalf);
    EXPECT_EQ(second->type, at::kHalf);
    EXPECT_EQ(first->thread, std::this_thread::get_id());
    EXPECT_NE(second->thread, first->thread);
    EXPECT_TRUE(second->graph);
  }
  const torch::NoGradGuard no_gradients;
  const auto [first, second] = look();
  EXPECT_EQ(second->type, at::kFloat);
  EXPECT_FALSE(second->graph);
}

// What LibTorch remembers by thread, such as the fastest algorithm for a convolution, is there in the next step.
TEST(DataParallel, EachCopyRunsInTheSameThreadInEveryStep) {
  const auto copies = on_devices<Witness>(3);
  DataParallel parallel(copies);
  for (const int64_t samples : {6, 6, 2, 6})
    parallel.step(batch_of(samples), MeanCrossEntropy());  // two leave one idle
  const auto forwards = [&](size_t i) {
    return std::static_pointer_cast<Witness>(copies[i].model)->forwards_of_thread;
  };
  EXPECT_EQ(forwards(1), 4);
  EXPECT_EQ(forwards(2), 3);
}

}  // namespace
}  // namespace ddprun
