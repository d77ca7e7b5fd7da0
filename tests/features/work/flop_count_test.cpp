// SPDX-License-Identifier: MIT
#include "features/work/flop_count.h"

#include "features/work/work_meter.h"
#include "weights/precision.h"

#include <ddprun/recompute.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <functional>
#include <memory>
#include <tuple>

namespace ddprun {
namespace {

// Counts forward and backward of what the call returns, as a step does.
double flops_of(const std::function<at::Tensor()>& forward) {
  RecomputedBlocks::before_first_backward();
  FlopCount count;
  count.begin_forward(1);
  at::Tensor output;
  {
    const Listening listening(&count);
    output = forward();
  }
  if (!output.requires_grad()) return count.flops();
  count.begin_backward();
  const Listening listening(&count);
  output.sum().backward();
  return count.flops();
}

TEST(FlopCount, LinearLayerTakesAsMuchForEachGradientAsForward) {
  constexpr double kForward = 2.0 * 3 * 5 * 8 * 16;
  torch::nn::Linear layer(8, 16);
  const auto given = at::randn({3, 5, 8}), asked = at::randn({3, 5, 8}).requires_grad_();
  EXPECT_EQ(flops_of([&] { return layer(asked); }), 3 * kForward);
  EXPECT_EQ(flops_of([&] { return layer(given); }), 2 * kForward);  // nobody asks for the input's gradient
  for (auto& parameter : layer->parameters()) parameter.requires_grad_(false);
  EXPECT_EQ(flops_of([&] { return layer(asked); }), 2 * kForward);
  EXPECT_EQ(flops_of([&] { return layer(given); }), kForward);
}

TEST(FlopCount, AutocastCountsAProductOnce) {
  torch::nn::Linear layer(8, 16);
  const auto input = at::randn({3, 8}).requires_grad_();
  EXPECT_EQ(flops_of([&] {
              const AutocastScope autocast(at::kCPU, at::kBFloat16);
              return layer(input);
            }),
            3 * 2.0 * 3 * 8 * 16);
}

TEST(FlopCount, ConvolutionMeetsEachPlaceOfItsOutputOrTransposedOfItsInput) {
  const auto input = at::randn({2, 4, 9, 9}).requires_grad_();
  torch::nn::Conv2d grouped(torch::nn::Conv2dOptions(4, 6, 3).stride(2).padding(1).groups(2));
  EXPECT_EQ(flops_of([&] { return grouped(input); }), 3 * 2.0 * 2 * 5 * 5 * 6 * (4.0 / 2) * 9);
  torch::nn::ConvTranspose2d wider(torch::nn::ConvTranspose2dOptions(4, 6, 3).stride(2));
  EXPECT_EQ(flops_of([&] { return wider(input); }), 3 * 2.0 * 2 * 9 * 9 * 4 * 6 * 9);
  torch::nn::Conv1d line(torch::nn::Conv1dOptions(4, 6, 3).dilation(2));
  EXPECT_EQ(flops_of([&] { return line(at::randn({2, 4, 9})); }), 2 * 2.0 * 2 * 5 * 4 * 6 * 3);
}

TEST(FlopCount, AttentionCountsAllPairsAndItsBackwardTwice) {
  const auto make = [] { return at::randn({2, 3, 16, 8}).requires_grad_(); };
  const auto query = make(), key = make(), value = make();
  constexpr double kForward = 2.0 * 2 * 3 * 16 * 16 * (8 + 8);
  EXPECT_EQ(flops_of([&] { return at::scaled_dot_product_attention(query, key, value, {}, 0, true); }), 3 * kForward);
  EXPECT_EQ(flops_of([&] { return at::scaled_dot_product_attention(query, key, value, {}, 0.1, true); }), 3 * kForward);
}

TEST(FlopCount, LstmMeetsItsMatricesAtEachSymbol) {
  torch::nn::LSTM layer(torch::nn::LSTMOptions(8, 16));
  const auto input = at::randn({5, 3, 8}).requires_grad_();
  constexpr double kForward = 2.0 * 5 * 3 * 4 * 16 * (8 + 16);
  const at::NoGradGuard no_gradients;
  EXPECT_EQ(flops_of([&] { return std::get<0>(layer(input)); }), kForward);
}

class Doubled final : public torch::nn::Module {
 public:
  Doubled() { block = register_module("block", torch::nn::Linear(8, 8)); }
  torch::nn::Linear block{nullptr};
};

TEST(FlopCount, WhatIsComputedAgainDoesNotCount) {
  const auto model = std::make_shared<Doubled>();
  RecomputedBlocks blocks(model);
  const auto input = at::randn({3, 8}).requires_grad_();
  int calls = 0;
  const auto forward = [&] {
    return recomputed(
        *model->block,
        [&](const at::Tensor& x) {
          ++calls;
          return at::tanh(at::linear(at::tanh(model->block(x)), model->block->weight));
        },
        input);
  };
  const auto once = flops_of(forward);
  EXPECT_EQ(once, 2 * 3 * 2.0 * 3 * 8 * 8);
  EXPECT_EQ(calls, 1);
  blocks.choose({"block"});
  EXPECT_EQ(flops_of(forward), once);
  EXPECT_EQ(calls, 3);
}

TEST(WorkMeter, PeaksAreThoseOfWholeGpusThatAreKnown) {
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA H200", PrecisionMode::kBf16, false), 989.4e12);
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA A100-SXM4-80GB", PrecisionMode::kFp16, false), 312e12);
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA H100 80GB HBM3", PrecisionMode::kFp32, false), 66.9e12);
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA H100 80GB HBM3", PrecisionMode::kFp32, true), 494.7e12);  // convolutions use TF32
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA H100 80GB HBM3", PrecisionMode::kFp32Exact, true), 66.9e12);
  EXPECT_DOUBLE_EQ(peak_flops("Tesla T4", PrecisionMode::kTf32, false), 8.1e12);
  EXPECT_DOUBLE_EQ(peak_flops("Tesla T4", PrecisionMode::kBf16, false), 0);  // it has no such units
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA A100-SXM4-40GB MIG 1g.5gb", PrecisionMode::kBf16, false), 0);
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA GeForce RTX 4090", PrecisionMode::kBf16, false), 0);
}

TEST(WorkMeter, TokensAreThePlacesOfTargetsThatAreSequences) {
  const auto numbers = [](std::vector<int64_t> sizes) { return at::zeros(sizes, at::kLong); };
  const auto values = [](std::vector<int64_t> sizes) { return at::zeros(sizes); };
  EXPECT_EQ(tokens_of_sample({.input = numbers({2, 7}), .target = numbers({2, 7})}), 7);
  EXPECT_EQ(tokens_of_sample({.input = numbers({2, 9}), .target = numbers({2, 7})}), 7);  // translated
  EXPECT_EQ(tokens_of_sample({.input = values({2, 7, 3}), .target = numbers({2, 7})}), 7);
  EXPECT_EQ(tokens_of_sample({.input = values({2, 90, 3}), .target = numbers({2, 7})}), 0);  // no place for each
  EXPECT_EQ(tokens_of_sample({.input = numbers({2, 7}), .target = numbers({2})}), 0);
  EXPECT_EQ(tokens_of_sample({.input = values({2, 1, 8, 8}), .target = numbers({2})}), 0);
  EXPECT_EQ(tokens_of_sample({.input = values({2, 8}), .target = values({2, 8})}), 0);
}

}  // namespace
}  // namespace ddprun
