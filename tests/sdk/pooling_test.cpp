// SPDX-License-Identifier: MIT
#include <ddprun/batch_norm.h>
#include <ddprun/dropout.h>
#include <ddprun/fused_layers.h>
#include <ddprun/pooling.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <thread>

namespace ddprun {
namespace {

constexpr auto kLayout = at::MemoryFormat::ChannelsLast;
using Sizes = std::vector<int64_t>;

at::Tensor images(const Sizes& sizes, at::ScalarType type = at::kFloat) {
  return torch::randn(sizes).mul(2).add(1).to(type).contiguous(kLayout);
}

at::Tensor gradient_of(const at::Tensor& input, const at::Tensor& output, const at::Tensor& factor) {
  return torch::autograd::grad({output}, {input}, {factor})[0];
}

// Even and odd sides, fewer and more channels than a vector has lanes, and a number that they do not divide.
class Pooled : public testing::TestWithParam<std::tuple<Sizes, at::ScalarType>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Pooled,
                         testing::Combine(testing::Values(Sizes{3, 1, 4, 4}, Sizes{2, 5, 7, 6}, Sizes{3, 16, 6, 9},
                                                          Sizes{2, 24, 5, 5}, Sizes{2, 64, 2, 2}),
                                          testing::Values(at::kFloat, at::kBFloat16)));

TEST_P(Pooled, GivesTheBitsOfTorch) {
  torch::manual_seed(1);
  const auto& [sizes, type] = GetParam();
  const auto input = images(sizes, type).requires_grad_();
  const auto output = max_pool_relu(input), expected = at::max_pool2d(input, 2).relu();
  EXPECT_TRUE(output.equal(expected));
  EXPECT_TRUE(output.is_contiguous(kLayout));
  const auto factor = torch::randn(output.sizes()).to(type);  // in channels_first, as a layer that flattens gives it
  EXPECT_TRUE(gradient_of(input, output, factor).equal(gradient_of(input, expected, factor)));
}

TEST(MaxPoolRelu, TakesTheFirstOfEqualsAndPassesNanOn) {
  auto input = torch::zeros({1, 16, 4, 2}).contiguous(kLayout);
  input.index_put_({0, torch::indexing::Slice(), torch::indexing::Slice(0, 2)}, 3);
  input[0][5][2][1] = std::numeric_limits<float>::quiet_NaN();
  input.requires_grad_();
  const auto output = max_pool_relu(input);
  EXPECT_TRUE(output[0].select(1, 0).eq(3).all().item<bool>());
  EXPECT_TRUE(std::isnan(output[0][5][1][0].item<float>()));
  const auto gradient = gradient_of(input, output, torch::ones_like(output));
  EXPECT_TRUE(gradient[0].select(1, 0).select(1, 0).eq(1).all().item<bool>());
  EXPECT_EQ(gradient[0].slice(1, 0, 2).sum().item<float>(), 16);
}

TEST(MaxPoolRelu, TakesEveryInputThatTorchTakes) {
  torch::manual_seed(2);
  for (const auto& input : {torch::randn({2, 3, 6, 6}), torch::randn({2, 3, 6, 6}, at::kDouble).contiguous(kLayout),
                            torch::randn({3, 6, 6}), torch::randn({0, 3, 6, 6})}) {
    EXPECT_TRUE(max_pool_relu(input).equal(at::max_pool2d(input, 2).relu()));
  }
}

TEST(MaxPoolRelu, RefusesToBeDifferentiatedTwiceRatherThanGiveZeros) {
  const auto input = images({1, 2, 4, 4}).requires_grad_();
  const auto output = max_pool_relu(input).sum();
  EXPECT_THROW(torch::autograd::grad({output}, {input}, {}, /*retain_graph=*/true, /*create_graph=*/true), c10::Error);
}

// A layer and its twin, which does one operation after the other.
struct Twins {
  BatchNorm ours, plain;

  explicit Twins(const BatchNormOptions& options) : ours(options), plain(options) {
    const torch::NoGradGuard no_gradients;
    for (auto& parameter : ours->parameters()) parameter.uniform_(-1.5, 1.5);  // negative scales turn the order round
    for (const auto& entry : ours->named_parameters()) plain->named_parameters()[entry.key()].copy_(entry.value());
  }

  at::Tensor expected(const at::Tensor& input) { return at::max_pool2d(plain(input), 2).relu(); }
};

bool near(const at::Tensor& one, const at::Tensor& other, at::ScalarType type) {
  const double tolerance = type == at::kFloat ? 1e-4 : 3e-2;
  return at::allclose(one.to(at::kFloat), other.to(at::kFloat), tolerance, tolerance);
}

// A gradient's number jumps where a value lies within rounding of 0, or two within rounding of one another: few may.
bool mostly_near(const at::Tensor& one, const at::Tensor& other, at::ScalarType type) {
  const double tolerance = type == at::kFloat ? 1e-4 : 5e-2;
  const auto far = at::isclose(one.to(at::kFloat), other.to(at::kFloat), tolerance, tolerance).logical_not();
  return far.to(at::kFloat).mean().item<double>() < (type == at::kFloat ? 1e-6 : 0.05);
}

TEST_P(Pooled, NormalisesAsBatchNormDoes) {
  torch::manual_seed(3);
  const auto& [sizes, type] = GetParam();
  Twins twins({.channels = sizes[1], .momentum = 0.5});
  for (const bool training : {true, true, false}) {  // in evaluation by the running statistics
    for (auto* layer : {&twins.ours, &twins.plain}) (*layer)->train(training);
    const auto input = images(sizes, type).requires_grad_();
    const auto output = twins.ours->pool_relu(input), expected = twins.expected(input);
    EXPECT_TRUE(near(output, expected, type));
    const auto factor = torch::randn(output.sizes()).to(type);
    EXPECT_TRUE(mostly_near(gradient_of(input, output, factor), gradient_of(input, expected, factor), type));
  }
  for (const auto& entry : twins.plain->named_buffers())
    EXPECT_TRUE(near(twins.ours->named_buffers()[entry.key()], entry.value(), at::kFloat)) << entry.key();
}

TEST(PooledBatchNorm, HasTheGradientsOfItsWeightsThoseOfZeroToo) {
  torch::manual_seed(4);
  for (const bool zero : {false, true}) {
    Twins twins({.channels = 20});
    for (auto* layer : {&twins.ours, &twins.plain}) {
      const torch::NoGradGuard no_gradients;
      if (!zero) continue;
      (*layer)->named_parameters()["weight"].zero_();
      (*layer)->named_parameters()["bias"].fill_(1);
    }
    const auto input = images({4, 20, 7, 8}), factor = torch::randn({4, 20, 3, 4});
    (twins.ours->pool_relu(input) * factor).sum().backward();
    (twins.expected(input) * factor).sum().backward();
    for (const auto& entry : twins.plain->named_parameters()) {
      const auto& gradient = twins.ours->named_parameters()[entry.key()].grad();
      EXPECT_TRUE(near(gradient, entry.value().grad(), at::kFloat)) << entry.key() << zero;
    }
  }
}

TEST(PooledBatchNorm, KeepsTheVarianceOfValuesFarFromZero) {
  torch::manual_seed(7);
  Twins twins({.channels = 16, .momentum = 1});
  const auto input = images({8, 16, 8, 8}).add(1e4);
  const auto output = twins.ours->pool_relu(input);
  EXPECT_TRUE(at::allclose(twins.ours->named_buffers()["running_var"],
                           input.to(at::kDouble).var({0, 2, 3}).to(at::kFloat), 1e-4));
  EXPECT_TRUE(at::allclose(output, twins.expected(input), 1e-2, 1e-2));
}

TEST(PooledBatchNorm, IsTheSameAtAnyNumberOfThreads) {
  torch::manual_seed(8);
  Twins twins({.channels = 20});
  const auto input = images({9, 20, 6, 6}).requires_grad_();
  const auto threads = at::get_num_threads();
  std::vector<at::Tensor> results;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    const auto output = twins.ours->pool_relu(input);
    results.push_back(gradient_of(input, output, torch::ones_like(output)));
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(results[0].equal(results[1]));
}

TEST(FusedLayers, AreEachThreadsOwn) {
  const FusedLayersScope apart(false);
  bool elsewhere = false;
  std::thread([&] { elsewhere = fused_layers(); }).join();
  EXPECT_TRUE(elsewhere);
  EXPECT_FALSE(fused_layers());
}

TEST(FusedLayers, SwitchedOffHaveTheBitsOfTorch) {
  const FusedLayersScope apart(false);
  torch::manual_seed(12);
  Twins twins({.channels = 20});
  const auto input = images({4, 20, 7, 8}).requires_grad_();
  const auto output = twins.ours->pool_relu(input), expected = twins.expected(input);
  EXPECT_TRUE(output.equal(expected));
  const auto factor = torch::randn(output.sizes());
  EXPECT_TRUE(gradient_of(input, output, factor).equal(gradient_of(input, expected, factor)));
  torch::manual_seed(13);
  const auto dropped = ddprun::dropout(input, 0.3, true);
  torch::manual_seed(13);
  EXPECT_TRUE(dropped.equal(at::dropout(input, 0.3, true)));
}

TEST(Dropout, DropsTheAskedShareAndItsGradientsAndScalesTheRest) {
  torch::manual_seed(9);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto input = torch::ones({7, 11, 13, 103}, type).contiguous(kLayout).requires_grad_();
    for (const double p : {0.25, 0.5, 0.9}) {
      const auto output = ddprun::dropout(input, p, true);
      const auto share = output.eq(0).to(at::kDouble).mean().item<double>();
      EXPECT_NEAR(share, p, 5 * std::sqrt(p * (1 - p) / static_cast<double>(input.numel())));
      const auto kept = output.masked_select(output.ne(0)).to(at::kDouble);
      EXPECT_TRUE(at::allclose(kept, torch::full_like(kept, 1 / (1 - p)), 1e-2));
    }
    const auto output = ddprun::dropout(input, 0.5, true);
    const auto factor = torch::randn(output.sizes()).to(type);  // lies in memory in another order than the input
    EXPECT_TRUE(gradient_of(input, output, factor).equal(output.detach() * factor));
  }
}

TEST(Dropout, DrawsAnewEachTimeAndAgainFromAState) {
  const auto input = torch::ones({1000});
  torch::manual_seed(11);
  const auto first = ddprun::dropout(input, 0.5, true), second = ddprun::dropout(input, 0.5, true);
  EXPECT_FALSE(first.equal(second));
  torch::manual_seed(11);
  EXPECT_TRUE(ddprun::dropout(input, 0.5, true).equal(first));
}

TEST(Dropout, NeighboursAreDroppedIndependently) {
  torch::manual_seed(12);
  const auto dropped = ddprun::dropout(torch::ones({200000}), 0.5, true).eq(0).to(at::kDouble);
  for (const int64_t distance : {1, 2, 16, 128, 4096}) {
    const auto pairs = dropped.slice(0, distance) * dropped.slice(0, 0, -distance);
    EXPECT_NEAR(pairs.mean().item<double>(), 0.25, 0.01) << distance;
  }
}

TEST(Dropout, LeavesAndDropsAllAtTheEnds) {
  const auto input = torch::randn({10, 10});
  EXPECT_TRUE(ddprun::dropout(input, 0, true).equal(input));
  EXPECT_TRUE(ddprun::dropout(input, 0.7, false).equal(input));
  EXPECT_TRUE(ddprun::dropout(input, 1, true).eq(0).all().item<bool>());
  EXPECT_THROW(ddprun::dropout(input, 1.5, true), c10::Error);
}

TEST(Dropout, CanBeDifferentiatedTwice) {
  const auto input = torch::full({100}, 2.0, at::kFloat).requires_grad_();
  const auto output = ddprun::dropout(input, 0.5, true).square().sum();
  const auto gradient = torch::autograd::grad({output}, {input}, {}, true, /*create_graph=*/true)[0];
  const auto second = torch::autograd::grad({gradient.sum()}, {input})[0];
  EXPECT_TRUE(second.equal(gradient.detach().div(2)));
}

}  // namespace
}  // namespace ddprun
