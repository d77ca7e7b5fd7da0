// SPDX-License-Identifier: MIT
// The toy experiment in shards, with all that depends on a batch's division: batch statistics, a shared weight,
// clipping, averaged weights and a ragged last batch.
#pragma once

#include "support/toy_run.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::testing {

// BatchNorm, whose statistics are of one shard; a weight that two layers share; and a buffer that each forward reads
// and changes, as a codebook's.
class NormedToyModel : public Model {
 public:
  void prepare(const DataSpec& data) override {
    hidden_ = register_module("hidden", torch::nn::Linear(data.sample_shape.at(0), 16));
    norm_ = register_module("norm", torch::nn::BatchNorm1d(4));
    square_ = register_parameter("square", torch::randn({16, 16}) / 4);
    output_ = register_module("output", torch::nn::Linear(16, data.classes));
    seen_ = register_buffer("seen", torch::zeros({16}));
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto hidden = torch::relu(norm_(hidden_(input).view({-1, 4, 4}))).flatten(1);
    for (int i = 0; i < 2; ++i) hidden = torch::tanh(at::matmul(hidden, square_)) - 0.1 * seen_;
    if (is_training()) seen_.mul_(0.9).add_(hidden.detach().mean(0), 0.1);
    return output_(hidden);
  }

 private:
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
  torch::nn::BatchNorm1d norm_{nullptr};
  at::Tensor square_, seen_;
};

// 103 samples in batches of 12: the last one has 7 samples.
inline ToyRun sharded(const TempFolder& folder, int64_t shards) {
  ToyRun run{.folder = folder.path()};
  run.experiment.seed = 42;
  run.experiment.trainer = {
      .max_epochs = 3, .global_batch = 12, .shards = shards, .log_every = 4, .clip_norm = 0.5, .ema_decay = 0.9};
  run.make_model = [] { return std::make_shared<NormedToyModel>(); };
  return run;
}

// All rows but their times, with their numbers' bits.
inline std::vector<std::string> texts_of(const std::vector<MetricRow>& rows) {
  constexpr std::array<std::string_view, 4> kTimes{"samples_per_second", "model_flops_per_second", "train_seconds",
                                                   "evaluation_seconds"};
  std::vector<std::string> texts;
  for (const auto& row : rows) {
    auto text = row.split + " " + std::to_string(row.step) + " " + std::to_string(row.samples);
    for (const auto& [name, value] : row.values) {
      if (std::ranges::find(kTimes, name) == kTimes.end())
        text += " " + name + "=" + std::to_string(std::bit_cast<uint64_t>(value));
    }
    texts.push_back(text);
  }
  return texts;
}

inline void expect_same(const ToyResult& one, const ToyResult& other, const std::string& what) {
  EXPECT_EQ(texts_of(one.rows), texts_of(other.rows)) << what;
  ASSERT_EQ(one.weights[0].size(), other.weights[0].size());
  for (const auto& [name, value] : one.weights[0])
    EXPECT_TRUE(at::equal(value, other.weights[0].at(name))) << name << ", " << what;
}

}  // namespace ddprun::testing
