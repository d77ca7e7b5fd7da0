// SPDX-License-Identifier: MIT
// The smallest experiment: points in a plane of classes, a two-layer network without dropout and batch statistics,
// plain SGD with momentum. Made in the test, so that a test needs no plugin.
#pragma once

#include <ddprun/dataset.h>
#include <ddprun/model.h>
#include <ddprun/optimizer.h>
#include <ddprun/random.h>

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ddprun::testing {

// `train`, `val` and `test` samples of 8 features in 3 classes, a pure function of their numbers.
class ToyDataset : public Dataset {
 public:
  ToyDataset(int64_t train, int64_t val, int64_t test = 0) : sizes_{train, val, test} {}

  void start() override {}
  DataSpec spec() const override { return {.sample_shape = {8}, .classes = 3}; }

  int64_t size(Split split) const override { return sizes_[static_cast<size_t>(split)]; }

  Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    Batch batch{.input = at::empty({count, 8}),
                .target = at::empty({count}, at::kLong),
                .index = at::empty({count}, at::kLong)};
    for (int64_t row = 0; row < count; ++row) {
      RandomStream draws(1 + static_cast<int>(split), static_cast<uint64_t>(indices[row]));
      const auto label = static_cast<int64_t>(draws.below(3));
      for (int64_t i = 0; i < 8; ++i) batch.input[row][i] = draws.normal() + (i % 3 == label ? 1.5 : 0.0);
      batch.target[row] = label;
      batch.index[row] = indices[row];
    }
    return batch;
  }

 private:
  std::array<int64_t, 3> sizes_;
};

// Some training samples hold NaN.
class PoisonedToyDataset : public ToyDataset {
 public:
  PoisonedToyDataset(int64_t train, int64_t val, std::vector<int64_t> bad)
      : ToyDataset(train, val), bad_(std::move(bad)) {}

  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = ToyDataset::get(split, indices);
    for (size_t row = 0; split == Split::kTrain && row < indices.size(); ++row) {
      if (std::ranges::find(bad_, indices[row]) != bad_.end())
        batch.input[static_cast<int64_t>(row)].fill_(std::nan(""));
    }
    return batch;
  }

 private:
  std::vector<int64_t> bad_;
};

// Inputs of one more feature in some batches.
class WideningToyDataset : public ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  void augment(Batch& batch, const AugmentKey& /*key*/) const override {
    if (batch.index.eq(0).any().item<bool>()) batch.input = at::constant_pad_nd(batch.input, {0, 1});
  }
};

class ToyModel : public Model {
 public:
  void prepare(const DataSpec& data) override {
    hidden_ = register_module("hidden", torch::nn::Linear(data.sample_shape.at(0), 16));
    output_ = register_module("output", torch::nn::Linear(16, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override { return output_(torch::tanh(hidden_(input))); }

 private:
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

// Each sample has a mask of its own that leaves features out, and a factor of what is left.
class MaskedToyDataset : public ToyDataset {
 public:
  using ToyDataset::ToyDataset;

  DataSpec spec() const override {
    return {.sample_shape = {8}, .classes = 3, .extras = {{"mask", {8}}, {"factor", {}}}};
  }

  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = ToyDataset::get(split, indices);
    const auto draws = uniform_for_samples(77 + static_cast<uint64_t>(split), 0, batch.index, 9);
    batch.extras = {{"mask", draws.slice(1, 0, 8) < 0.7}, {"factor", draws.select(1, 8).contiguous()}};
    return batch;
  }
};

// Has several inputs, and no forward() for one alone.
class MaskedToyModel : public Model {
 public:
  void prepare(const DataSpec& data) override {
    net_ = std::make_shared<ToyModel>();
    net_->prepare(data);
    register_module("net", net_);
  }

  at::Tensor predict(const Batch& batch) override {
    return net_->forward(batch.input * batch.extra("mask") * batch.extra("factor").unsqueeze(1));
  }

 private:
  std::shared_ptr<ToyModel> net_;
};

class ToySgd : public Optimizer {
 public:
  explicit ToySgd(double lr) : Optimizer(lr) {}

  void step() override {
    const torch::NoGradGuard no_gradients;
    for (auto& parameter : groups().front().parameters) {
      if (!parameter.value.grad().defined()) continue;
      auto& momentum = momentum_[parameter.name + "/momentum"];
      momentum = momentum.defined() ? momentum.mul(0.9).add(parameter.value.grad()) : parameter.value.grad().clone();
      parameter.value.sub_(momentum, groups().front().lr);
    }
  }

  std::vector<StepPart> step_parts() const override { return parts_by_parameter(); }

  OptimizerState state() const override { return momentum_; }

  void load_state(const OptimizerState& state) override {
    momentum_.clear();
    for (const auto& [name, value] : state) momentum_[name] = value.clone();
  }

 private:
  OptimizerState momentum_;
};

class MeanCrossEntropy : public Objective {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return at::cross_entropy_loss(prediction, target);
  }

  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    const auto classes = target.dim() == 2 ? target.argmax(1) : target;  // of mixed samples
    return {{.name = "accuracy", .sum = prediction.detach().argmax(1).eq(classes).sum(), .count = target.size(0)}};
  }
};

}  // namespace ddprun::testing
