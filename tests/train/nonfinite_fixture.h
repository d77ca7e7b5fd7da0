// SPDX-License-Identifier: MIT
// The toy run with samples that hold NaN, and its reference: the same run in whose data their batches are missing.
#pragma once

#include "support/toy_run.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/nn/modules/batchnorm.h>

#include <fstream>
#include <limits>

namespace ddprun::testing {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr int64_t kBatch = 12;

// Some training samples hold NaN.
class Poisoned : public ToyDataset {
 public:
  Poisoned(int64_t train, int64_t val, std::vector<int64_t> bad) : ToyDataset(train, val), bad_(std::move(bad)) {}

  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = ToyDataset::get(split, indices);
    for (size_t row = 0; split == Split::kTrain && row < indices.size(); ++row) {
      if (std::ranges::find(bad_, indices[row]) != bad_.end()) batch.input[static_cast<int64_t>(row)].fill_(kNan);
    }
    return batch;
  }

 private:
  std::vector<int64_t> bad_;
};

// The data without some of their batches.
class Gapped : public ToyDataset {
 public:
  Gapped(int64_t train, int64_t val, std::vector<int64_t> gaps) : ToyDataset(train, val), gaps_(std::move(gaps)) {}

  int64_t size(Split split) const override {
    const auto all = ToyDataset::size(split);
    return split == Split::kTrain ? all - kBatch * static_cast<int64_t>(gaps_.size()) : all;
  }

  Batch get(Split split, std::span<const int64_t> indices) const override {
    std::vector<int64_t> shifted(indices.begin(), indices.end());
    for (auto& index : shifted) {
      for (const auto gap : gaps_) index += split == Split::kTrain && index / kBatch >= gap ? kBatch : 0;
    }
    auto batch = ToyDataset::get(split, shifted);
    batch.index = at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong);
    return batch;
  }

 private:
  std::vector<int64_t> gaps_;  // ascending
};

// A model with running statistics to spoil.
class Normed : public ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    ToyModel::prepare(data);
    norm_ = register_module("norm", torch::nn::BatchNorm1d(data.sample_shape.at(0)));
  }
  at::Tensor forward(const at::Tensor& input) override { return ToyModel::forward(norm_(input)); }

 private:
  torch::nn::BatchNorm1d norm_{nullptr};
};

// Nine steps in the data's own order, everything with a state in use.
inline ToyRun poisoned_toy(const TempFolder& folder, const std::string& action, int64_t ranks = 1) {
  ToyRun run{.ranks = ranks, .train_samples = 9 * kBatch, .folder = folder.path()};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 1, .global_batch = kBatch, .log_every = 100, .shuffle = false};
  run.experiment.trainer.on_nonfinite = enum_of<OnNonfinite>(action).value();
  run.experiment.trainer.ema_decay = 0.9;
  run.experiment.schedule = {.kind = ScheduleKind::kStep, .every = {.steps = 3}, .gamma = 0.5};
  run.experiment.checkpoint.every = {.steps = 2};
  run.make_model = [] { return std::make_shared<Normed>(); };
  return run;
}

inline void poison(ToyRun& run, const std::vector<int64_t>& samples) {
  run.make_dataset = [samples](int64_t train, int64_t val) { return std::make_shared<Poisoned>(train, val, samples); };
}

inline ToyResult train_without(const std::vector<int64_t>& batches, int64_t ranks) {
  const TempFolder folder;
  auto run = poisoned_toy(folder, "stop", ranks);
  run.make_dataset = [batches](int64_t train, int64_t val) { return std::make_shared<Gapped>(train, val, batches); };
  return train_toy(run);
}

inline std::string error_of(const ToyRun& run) {
  try {
    train_toy(run);
  } catch (const UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "it trained to the end";
  return "";
}

inline int64_t newest_step(const TempFolder& folder) {
  std::vector<CheckpointFlaw> flaws;
  const auto newest = newest_checkpoint(folder.path(), flaws);
  EXPECT_TRUE(flaws.empty());
  return newest ? newest->step : -1;
}

inline nlohmann::json event(const TempFolder& folder, const std::string& name) {
  std::ifstream file(folder.path() / "nonfinite" / name);
  return nlohmann::json::parse(file);
}

}  // namespace ddprun::testing
