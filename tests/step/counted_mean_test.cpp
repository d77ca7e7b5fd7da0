// SPDX-License-Identifier: MIT
// Symbols of which few count, very unevenly: however a batch of them is cut, it is the same step.
#include "support/toy_run.h"

#include <ddprun/error.h>
#include <ddprun/objective.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

namespace ddprun {
namespace {

using testing::error_of_training;
using ::testing::HasSubstr;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;
using testing::values_of;

// Sequences of 8 symbols out of 3; each is followed by the next one. In a sample from none of them to all eight count.
class SparseSymbols : public testing::ToyDataset {
 public:
  using ToyDataset::ToyDataset;

  Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    Batch batch{.input = at::empty({count, 8}, at::kLong),
                .target = at::empty({count, 8}, at::kLong),
                .index = at::empty({count}, at::kLong)};
    for (int64_t row = 0; row < count; ++row) {
      RandomStream draws(5 + static_cast<int>(split), static_cast<uint64_t>(indices[row]));
      const auto counted = indices[row] % 3 == 0 ? 0 : static_cast<int64_t>(draws.below(9));
      for (int64_t i = 0; i < 8; ++i) {
        const auto symbol = static_cast<int64_t>(draws.below(3));
        batch.input[row][i] = symbol;
        batch.target[row][i] = i < counted ? (symbol + 1) % 3 : kIgnoredClass;
      }
      batch.index[row] = indices[row];
    }
    return batch;
  }
};

class SymbolModel : public Model {
 public:
  void prepare(const DataSpec& data) override {
    symbols_ = register_module("symbols", torch::nn::Embedding(data.classes, 5));
    output_ = register_module("output", torch::nn::Linear(5, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override { return output_(torch::tanh(symbols_(input))); }

  Step step(const Batch& batch, const Objective&) override {
    const auto [logits, target] = as_samples(forward(batch.input), batch.target);
    const auto counted = count_classes(target);
    return {
        .loss = cross_entropy(logits, target),
        .metrics = {{.name = "accuracy", .sum = count_correct(logits.detach(), target), .counted = counted}},
        .counted = counted,
    };
  }

 private:
  torch::nn::Embedding symbols_{nullptr};
  torch::nn::Linear output_{nullptr};
};

ToyRun sparse_run() {
  ToyRun run{.lr = 0.5};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 3, .global_batch = 12, .log_every = 1};
  run.make_dataset = [](int64_t train, int64_t val) { return std::make_shared<SparseSymbols>(train, val); };
  run.make_model = [] { return std::make_shared<SymbolModel>(); };
  return run;
}

// Steps of gradient descent in float64 on the mean over all that counts in each global batch.
TensorDict by_hand(const ToyRun& run) {
  const SparseSymbols data(run.train_samples, run.val_samples);
  auto model = std::make_shared<SymbolModel>();
  torch::manual_seed(run.experiment.seed);
  model->prepare(data.spec());
  model->to(at::kDouble);
  testing::ToySgd optimizer(run.lr);
  optimizer.start(trainable_parameters(*model));
  const auto& trainer = run.experiment.trainer;
  const StepPlan plan(run.train_samples, trainer.global_batch);
  for (int64_t epoch = 0; epoch < trainer.max_epochs; ++epoch) {
    const auto order = epoch_order(run.experiment.seed, epoch, run.train_samples);
    for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      const auto part = plan.global_slice(step);
      const auto batch = data.get(Split::kTrain, std::span(order).subspan(part.begin, part.size()));
      const auto [logits, target] = as_samples(model->forward(batch.input), batch.target);
      model->zero_grad();
      at::cross_entropy_loss(logits, target).backward();
      optimizer.step();
    }
  }
  TensorDict weights;
  for (const auto& [name, value] : state_tensors(*model)) weights[name] = value.detach().to(at::kFloat);
  return weights;
}

double largest_relative_difference(const TensorDict& a, const TensorDict& b) {
  double largest = 0;
  for (const auto& [name, value] : a)
    largest = std::max(largest, (value - b.at(name)).abs().max().item<double>() / value.abs().max().item<double>());
  return largest;
}

TEST(CountedMean, OfAGlobalBatchIsTakenOverWhatCountsInIt) {
  const auto run = sparse_run();
  EXPECT_LT(largest_relative_difference(train_toy(run).weights[0], by_hand(run)), 1e-6);
}

using Cut = std::tuple<int64_t, int64_t>;  // ranks or devices, micro-batch
class UnevenCuts : public ::testing::TestWithParam<Cut> {};

void expect_as_whole(const ToyResult& result, const ToyResult& whole) {
  EXPECT_LT(largest_relative_difference(result.weights.back(), whole.weights[0]), 1e-6);
  const auto losses = values_of(result.rows, "train", "loss"), expected = values_of(whole.rows, "train", "loss");
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5) << "row " << i;
  EXPECT_EQ(values_of(result.rows, "train", "accuracy"), values_of(whole.rows, "train", "accuracy"));
  EXPECT_EQ(values_of(result.rows, "val", "accuracy"), values_of(whole.rows, "val", "accuracy"));
}

TEST_P(UnevenCuts, TrainAsTheWholeBatchDoes) {
  auto run = sparse_run();
  const auto whole = train_toy(run);
  run.ranks = std::get<0>(GetParam());
  run.experiment.trainer.micro_batch = std::get<1>(GetParam());
  expect_as_whole(train_toy(run), whole);
  run.devices = std::exchange(run.ranks, 1);
  expect_as_whole(train_toy(run), whole);
}

TEST(CountedMean, OfShardsHasTheSameBitsOnEveryNumberOfRanks) {
  auto run = sparse_run();
  run.experiment.trainer.shards = 5;
  const auto alone = train_toy(run);
  expect_as_whole(alone, train_toy(sparse_run()));
  for (const int64_t ranks : {2, 3, 5}) {
    run.ranks = ranks;
    const auto result = train_toy(run);
    EXPECT_TRUE(testing::same_bits(result.weights[0], alone.weights[0])) << ranks << " ranks";
    EXPECT_EQ(values_of(result.rows, "train", "loss"), values_of(alone.rows, "train", "loss")) << ranks << " ranks";
    EXPECT_EQ(values_of(result.rows, "val", "loss"), values_of(alone.rows, "val", "loss")) << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(CountedMean, UnevenCuts,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::Values(0, 1, 2, 8)));

TEST(CountedMean, OfAnEvaluationDoesNotDependOnItsBatches) {
  std::vector<double> losses, accuracies;
  for (const int64_t batch : {1, 7, 64}) {
    auto run = sparse_run();
    run.experiment.trainer.eval_batch = batch;
    const auto result = train_toy(run);
    losses.push_back(values_of(result.rows, "val", "loss").back());
    accuracies.push_back(values_of(result.rows, "val", "accuracy").back());
  }
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], losses[0], 1e-6 * losses[0]);
    EXPECT_EQ(accuracies[i], accuracies[0]);
  }
  EXPECT_GT(accuracies[0], 0.99) << "what does not count is no mistake";
}

// Has no target that counts before this sample of its splits.
class LateSymbols : public SparseSymbols {
 public:
  LateSymbols(int64_t train, int64_t val, int64_t first_of_train, int64_t first_of_val)
      : SparseSymbols(train, val), first_of_train_(first_of_train), first_of_val_(first_of_val) {}
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = SparseSymbols::get(split, indices);
    const auto first = split == Split::kTrain ? first_of_train_ : first_of_val_;
    batch.target.masked_fill_(batch.index.lt(first).unsqueeze(1), kIgnoredClass);
    return batch;
  }

 private:
  int64_t first_of_train_, first_of_val_;
};

ToyRun late_run(int64_t first_of_train, int64_t first_of_val) {
  auto run = sparse_run();
  run.make_dataset = [=](int64_t train, int64_t val) {
    return std::make_shared<LateSymbols>(train, val, first_of_train, first_of_val);
  };
  run.experiment.early_stopping = EarlyStoppingConfig{.monitor = "val/loss", .maximize = false, .patience = 9};
  return run;
}

TEST(CountedMean, OfTheSanityBatchMayBeOneOverNothing) {
  auto run = late_run(0, 30);  // of 40
  run.experiment.trainer.eval_batch = 7;
  EXPECT_EQ(train_toy(run).end.status, "completed");
}

TEST(CountedMean, OverNothingIsNoMonitor) {
  EXPECT_THAT(error_of_training(late_run(0, 40)), HasSubstr("val/loss is NaN after step 9"));
}

TEST(CountedMean, OverNothingIsReported) {
  auto run = late_run(103, 40);  // all of the samples
  run.experiment.early_stopping.reset();
  ::testing::internal::CaptureStderr();
  train_toy(run);
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("no target of the samples in the row of step 1 counts"));
  EXPECT_THAT(said, HasSubstr("no target of the split val counts"));
  EXPECT_THAT(said, HasSubstr("val/accuracy is NaN; no checkpoint is marked as the best"));
}

// Says in every second step how many count.
class ForgetfulModel : public SymbolModel {
 public:
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = SymbolModel::step(batch, objective);
    if (is_training() && calls_++ % 2 == 1) step.counted.reset();
    return step;
  }

 private:
  int64_t calls_ = 0;
};

TEST(CountedMean, IsGivenInEveryStepOrInNone) {
  auto run = sparse_run();
  run.make_model = [] { return std::make_shared<ForgetfulModel>(); };
  EXPECT_THAT(error_of_training(run), HasSubstr("model: some steps say how many samples count"));
  run.devices = 2;  // one copy forgets before the other
  int64_t made = 0;
  run.make_model = [&] {
    const bool remembers = made++ == 0;
    return remembers ? std::make_shared<SymbolModel>() : std::make_shared<ForgetfulModel>();
  };
  EXPECT_THAT(error_of_training(run), HasSubstr("model: some steps say how many samples count"));
}

}  // namespace
}  // namespace ddprun
