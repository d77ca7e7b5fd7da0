// SPDX-License-Identifier: MIT
#include <ddprun/batch_norm.h>
#include <ddprun/error.h>
#include <ddprun/parameters.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using testing::ElementsAre;

// A world of one, on the path that more ranks take.
class NoOthers : public BatchStatistics {
 public:
  void sum(at::Tensor&) override { ++sums; }
  int sums = 0;
};

BatchNorm synchronized(const BatchNormOptions& options) {
  BatchNorm layer(options);
  layer->synchronize(std::make_shared<NoOthers>());
  return layer;
}

// Different for each parameter, so that no test passes by chance of weight 1 and bias 0.
void draw_parameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_gradients;
  for (auto& parameter : module.parameters()) parameter.uniform_(0.5, 1.5);
}

void copy_state(torch::nn::Module& to, const torch::nn::Module& from) {
  const torch::NoGradGuard no_gradients;
  for (const auto& entry : from.named_parameters()) to.named_parameters()[entry.key()].copy_(entry.value());
}

void expect_equal_state(const torch::nn::Module& one, const torch::nn::Module& other) {
  for (const auto& entry : one.named_parameters()) {
    EXPECT_TRUE(torch::equal(entry.value().grad(), other.named_parameters()[entry.key()].grad())) << entry.key();
  }
  for (const auto& entry : one.named_buffers()) {
    EXPECT_TRUE(torch::equal(entry.value(), other.named_buffers()[entry.key()])) << entry.key();
  }
}

TEST(BatchNorm, GivesTheBitsOfTorchInTrainingAndEvaluation) {
  torch::manual_seed(1);
  BatchNorm ours(5);
  torch::nn::BatchNorm2d torchs(5);
  draw_parameters(*ours);
  copy_state(*torchs, *ours);
  for (int step = 0; step < 3; ++step) {
    const auto input = torch::randn({4, 5, 6, 3}).mul(3).add(2).requires_grad_();
    const auto same_input = input.detach().clone().requires_grad_();
    const auto output = ours(input), same_output = torchs(same_input);
    EXPECT_TRUE(torch::equal(output, same_output));
    output.square().sum().backward();
    same_output.square().sum().backward();
    EXPECT_TRUE(torch::equal(input.grad(), same_input.grad()));
    expect_equal_state(*ours, *torchs);
  }
  ours->eval();
  torchs->eval();
  const auto input = torch::randn({4, 5, 6, 3});
  EXPECT_TRUE(torch::equal(ours(input), torchs(input)));
}

TEST(BatchNorm, GivesReluTheBitsOfItsOperationsWhereNoKernelJoinsThem) {
  torch::manual_seed(1);
  const auto input = torch::randn({4, 8, 6, 6}).contiguous(at::MemoryFormat::ChannelsLast);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const bool training : {true, false}) {
      BatchNorm joined(8), apart(8);
      for (auto* layer : {&joined, &apart}) (*layer)->train(training);
      const auto x = input.to(type).clone().requires_grad_(), y = x.detach().clone().requires_grad_();
      const auto output = joined->relu(x), expected = apart->forward(y).relu_();
      EXPECT_TRUE(output.equal(expected));
      output.sum().backward();
      expected.sum().backward();
      EXPECT_TRUE(x.grad().equal(y.grad()));
      EXPECT_TRUE(joined->buffers()[0].equal(apart->buffers()[0]));
    }
  }
}

TEST(BatchNorm, HasTheNamesOfTorch) {
  BatchNorm ours(2);
  torch::nn::BatchNorm2d torchs(2);
  EXPECT_EQ(ours->named_parameters().keys(), torchs->named_parameters().keys());
  EXPECT_EQ(ours->named_buffers().keys(), torchs->named_buffers().keys());
  BatchNorm unscaled(BatchNormOptions{.channels = 2, .scale = false});
  EXPECT_THAT(unscaled->named_parameters().keys(), ElementsAre("bias"));
  BatchNorm unshifted(BatchNormOptions{.channels = 2, .shift = false});
  EXPECT_THAT(unshifted->named_parameters().keys(), ElementsAre("weight"));
}

// On the path of several ranks a layer agrees with LibTorch's, whose gradients its own has bit by bit.
TEST(SynchronizedBatchNorm, AloneAgreesWithTorch) {
  using Sizes = std::vector<int64_t>;
  torch::manual_seed(2);
  for (const auto& [options, shape] : {std::pair{BatchNormOptions{.channels = 5}, Sizes{7, 5}},
                                       {{.channels = 5}, {4, 5, 9}},
                                       {{.channels = 5}, {4, 5, 6, 3}},
                                       {{.channels = 4, .eps = 0.1}, {4, 4, 6, 3}},
                                       {{.channels = 4, .momentum = 0.7}, {4, 4, 6, 3}},
                                       {{.channels = 4, .scale = false}, {4, 4, 6, 3}},
                                       {{.channels = 4, .shift = false}, {4, 4, 6, 3}}}) {
    BatchNorm plain(options);
    auto layer = synchronized(options);
    draw_parameters(*plain);
    copy_state(*layer, *plain);
    for (int step = 0; step < 2; ++step) {
      const auto input = torch::randn(shape).mul(3).add(2).requires_grad_();
      const auto same_input = input.detach().clone().requires_grad_();
      const auto factor = torch::randn(shape);
      const auto output = layer(input), expected = plain(same_input);
      EXPECT_TRUE(torch::allclose(output, expected, 1e-5, 1e-5));
      (output * factor).sum().backward();
      (expected * factor).sum().backward();
      EXPECT_TRUE(torch::allclose(input.grad(), same_input.grad(), 1e-5, 1e-5));
    }
    for (const auto& entry : plain->named_parameters()) {
      const auto& gradient = layer->named_parameters()[entry.key()].grad();
      EXPECT_TRUE(torch::allclose(gradient, entry.value().grad(), 1e-5, 1e-5)) << entry.key();
    }
    for (const auto& entry : plain->named_buffers())
      EXPECT_TRUE(torch::allclose(layer->named_buffers()[entry.key()], entry.value(), 1e-6, 1e-6)) << entry.key();
  }
}

TEST(SynchronizedBatchNorm, KeepsChannelsLastAndHalfPrecision) {
  torch::manual_seed(4);
  auto layer = synchronized({.channels = 8});
  const auto input = torch::randn({4, 8, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const auto output = layer(input);
  EXPECT_TRUE(output.is_contiguous(at::MemoryFormat::ChannelsLast));
  output.square().sum().backward();
  EXPECT_TRUE(input.grad().is_contiguous(at::MemoryFormat::ChannelsLast));
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto half_input = input.detach().to(type).requires_grad_();
    const auto half = layer(half_input);
    EXPECT_EQ(half.scalar_type(), type);
    EXPECT_TRUE(torch::allclose(half.to(at::kFloat), output, 0.05, 0.05));
    half.to(at::kFloat).sum().backward();
    EXPECT_EQ(half_input.grad().scalar_type(), type);
  }
  EXPECT_EQ(layer->named_buffers()["running_mean"].scalar_type(), at::kFloat);
}

TEST(SynchronizedBatchNorm, TakesParametersOfTheInputsHalfPrecision) {
  torch::manual_seed(6);
  for (const bool scale : {true, false}) {
    BatchNorm wide(BatchNormOptions{.channels = 8, .scale = scale});
    auto layer = synchronized({.channels = 8, .scale = scale});
    draw_parameters(*wide);
    copy_state(*layer, *wide);
    cast_floating_point(*layer, at::kBFloat16);
    const auto input = torch::randn({4, 8, 5, 5}).requires_grad_();
    const auto half_input = input.detach().to(at::kBFloat16).requires_grad_();
    const auto factor = torch::randn({4, 8, 5, 5});
    (wide(input) * factor).sum().backward();
    (layer(half_input) * factor).sum().backward();
    EXPECT_TRUE(torch::allclose(half_input.grad().to(at::kFloat), input.grad(), 0.05, 0.05));
    for (const auto& entry : wide->named_parameters()) {
      const auto& gradient = layer->named_parameters()[entry.key()].grad();
      EXPECT_EQ(gradient.scalar_type(), at::kBFloat16) << entry.key();
      EXPECT_TRUE(torch::allclose(gradient.to(at::kFloat), entry.value().grad(), 0.05, 0.3)) << entry.key();
    }
  }
}

TEST(SynchronizedBatchNorm, SurvivesAMeanFarAboveTheDeviation) {
  torch::manual_seed(5);
  const auto input = torch::randn({64, 2, 8, 8}).add(1000);
  const auto output = synchronized({.channels = 2})(input);
  EXPECT_NEAR(output.var().item<double>(), 1, 0.01);
  EXPECT_NEAR(output.mean().item<double>(), 0, 0.01);
}

TEST(SynchronizedBatchNorm, ExchangesOnceForwardAndOnceBackward) {
  const auto others = std::make_shared<NoOthers>();
  BatchNorm layer(3);
  layer->synchronize(others);
  const auto output = layer(torch::randn({4, 3}).requires_grad_());
  EXPECT_EQ(others->sums, 1);
  output.sum().backward();
  EXPECT_EQ(others->sums, 2);
  layer->eval();
  layer(torch::randn({4, 3}));
  EXPECT_EQ(others->sums, 2);
}

TEST(BatchNorm, RefusesABatchThatHasNoVariance) {
  BatchNorm layer(3);
  EXPECT_THROW(layer(torch::randn({1, 3})), UserError);
  layer->eval();
  EXPECT_NO_THROW(layer(torch::randn({1, 3})));
  EXPECT_TRUE(synchronized({.channels = 3})(torch::randn({1, 3})).isfinite().all().item<bool>());
  EXPECT_ANY_THROW(layer(torch::randn({2, 4})));
  EXPECT_ANY_THROW(layer(torch::randn({3})));
}

}  // namespace
}  // namespace ddprun
