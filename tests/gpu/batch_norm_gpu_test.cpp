// SPDX-License-Identifier: MIT
// Batch normalisation on a GPU beside the CPU's float32, in all its forms: LibTorch has other kernels there for each of
// them.
#include "gpu/gpu_test.h"

#include <ddprun/batch_norm.h>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

namespace ddprun {
namespace {

// A world of one.
class NoOthers : public BatchStatistics {
 public:
  void sum(at::Tensor&) override {}
};

// Learns a weight, learns a bias, shape of the input, precision, with statistics of all ranks.
using Form = std::tuple<bool, bool, std::string, std::string, bool>;

class BatchNormGpu : public testing::Gpu, public ::testing::WithParamInterface<Form> {
 protected:
  static at::ScalarType type() {
    const auto& precision = std::get<3>(GetParam());
    return precision == "fp32" ? at::kFloat : precision == "fp16" ? at::kHalf : at::kBFloat16;
  }

  // Relative to the largest value.
  static double tolerance() { return type() == at::kFloat ? 1e-4 : type() == at::kHalf ? 1e-2 : 4e-2; }

  static BatchNorm layer() {
    const auto& [scale, shift, shape, precision, synchronized] = GetParam();
    BatchNorm made(BatchNormOptions{.channels = 8, .scale = scale, .shift = shift});
    if (synchronized) made->synchronize(std::make_shared<NoOthers>());
    torch::manual_seed(3);
    torch::NoGradGuard no_gradients;
    for (auto& parameter : made->parameters()) parameter.uniform_(0.5, 1.5);
    if (precision == "bf16_pure") made->to(at::kBFloat16);
    return made;
  }

  // Float32 on the CPU, of values that the precision has.
  static at::Tensor values(double factor, double offset) {
    const auto& shape = std::get<2>(GetParam());
    const auto sizes = shape == "flat" ? std::vector<int64_t>{64, 8} : std::vector<int64_t>{16, 8, 6, 6};
    return at::randn(sizes).mul(factor).add(offset).to(type()).to(at::kFloat);
  }

  at::Tensor there(const at::Tensor& values) const {
    const bool last = std::get<2>(GetParam()) == "channels_last";
    return values.to(backend_->device(), type())
        .contiguous(last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  }

  static void expect_near(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
    ASSERT_TRUE(found.defined()) << what;
    ASSERT_EQ(found.sizes(), expected.sizes()) << what;
    const auto distance = (found.detach().cpu().to(at::kFloat) - expected.detach()).abs().max().item<double>();
    EXPECT_LE(distance, tolerance() * expected.detach().abs().max().item<double>()) << what;
  }
};

TEST_P(BatchNormGpu, TrainsAndEvaluatesAsOnTheCpu) {
  auto on_gpu = layer(), on_cpu = layer();
  on_gpu->to(backend_->device());
  on_cpu->to(at::kFloat);
  for (int step = 0; step < 2; ++step) {
    const auto input = values(3, 2).requires_grad_(), factor = values(1, 0);
    const auto input_there = there(input.detach()).requires_grad_();
    const auto output = on_gpu->forward(input_there), expected = on_cpu->forward(input);
    EXPECT_EQ(output.strides(), input_there.strides());
    EXPECT_EQ(output.scalar_type(), type());
    expect_near(output, expected, "the output");
    (output * there(factor)).sum().backward();
    (expected * factor).sum().backward();
    expect_near(input_there.grad(), input.grad(), "the input's gradient");
  }
  const auto parameters = on_gpu->named_parameters();
  for (const auto& entry : on_cpu->named_parameters()) {
    expect_near(parameters[entry.key()].grad(), entry.value().grad(), entry.key() + "'s gradient");
  }
  on_gpu->eval();
  on_cpu->eval();
  const auto input = values(3, 2);
  expect_near(on_gpu->forward(there(input)), on_cpu->forward(input), "the output of an evaluation");
}

std::string name_of(const ::testing::TestParamInfo<Form>& info) {
  const auto& [scale, shift, shape, precision, synchronized] = info.param;
  return std::string(scale ? "weight_" : "") + (shift ? "bias_" : "") + shape + "_" + precision +
         (synchronized ? "_synchronized" : "");
}

INSTANTIATE_TEST_SUITE_P(Forms, BatchNormGpu,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool(),
                                            ::testing::Values("flat", "channels_first", "channels_last"),
                                            ::testing::Values("fp32", "bf16", "fp16", "bf16_pure"), ::testing::Bool()),
                         name_of);

// Sizes of the images; in float16, or in bfloat16.
using Images = std::tuple<std::vector<int64_t>, bool>;

// Normalization and ReLU in one pass beside LibTorch's operations in float32 on the CPU.
class BatchNormReluGpu : public testing::Gpu, public ::testing::WithParamInterface<Images> {
 protected:
  static at::ScalarType type() { return std::get<1>(GetParam()) ? at::kHalf : at::kBFloat16; }
  static at::Tensor rounded(const at::Tensor& values) { return values.to(type()).to(at::kFloat); }

  at::Tensor there(const at::Tensor& values) const {
    return values.to(backend_->device(), type()).contiguous(at::MemoryFormat::ChannelsLast);
  }

  static void expect_near(const at::Tensor& found, const at::Tensor& expected, double tolerance,
                          const std::string& what) {
    const auto distance = (found.detach().cpu() - expected.detach()).abs().max().item<double>();
    EXPECT_LE(distance, tolerance * expected.detach().abs().max().item<double>()) << what;
  }
};

TEST_P(BatchNormReluGpu, TrainsAsOnTheCpu) {
  torch::manual_seed(3);
  const auto& sizes = std::get<0>(GetParam());
  const auto channels = sizes[1];
  const double rounding = type() == at::kHalf ? 1.0 / 1024 : 1.0 / 128;
  BatchNorm on_gpu(channels), on_cpu(channels);
  for (auto* layer : {&on_gpu, &on_cpu}) {
    const torch::NoGradGuard no_gradients;
    (*layer)->parameters()[0].copy_(at::linspace(-1, 2, channels));
    (*layer)->parameters()[1].copy_(at::linspace(1, -1, channels));
  }
  on_gpu->to(backend_->device());
  const auto means = at::arange(channels, at::kFloat).remainder(3).mul(20).view({1, -1, 1, 1});
  const auto input = rounded(at::randn(sizes) + means).requires_grad_(), gradient = rounded(at::randn(sizes));
  const auto input_there = there(input.detach()).requires_grad_();
  const auto output = on_gpu->relu(input_there), normalized = on_cpu->forward(input);
  ASSERT_EQ(output.scalar_type(), type());
  ASSERT_TRUE(output.is_contiguous(at::MemoryFormat::ChannelsLast));
  ASSERT_NE(output.grad_fn()->name().find("ActivatedBatchNorm"), std::string::npos) << output.grad_fn()->name();
  expect_near(output.to(at::kFloat), normalized.relu(), rounding, "the output");
  output.backward(there(gradient));
  normalized.backward(gradient * output.detach().cpu().gt(0));  // near 0, rounding decides what ReLU lets pass
  expect_near(input_there.grad().to(at::kFloat), input.grad(), rounding, "the input's gradient");
  for (size_t i = 0; i < 2; ++i) {
    const auto found = on_gpu->parameters()[i].grad(), expected = on_cpu->parameters()[i].grad();
    expect_near(found, expected, 1e-3, i == 0 ? "the weight's gradient" : "the bias's gradient");
    expect_near(on_gpu->buffers()[i], on_cpu->buffers()[i], 1e-4, i == 0 ? "the running mean" : "the running variance");
  }
}

TEST_P(BatchNormReluGpu, IsNotANumberWhereItsInputIsNot) {
  const auto& sizes = std::get<0>(GetParam());
  BatchNorm layer(sizes[1]);
  layer->to(backend_->device());
  auto values = at::randn(sizes);
  values.select(1, 3).fill_(NAN);
  const auto output = layer->relu(there(values)).cpu().isnan();
  EXPECT_TRUE(output.select(1, 3).all().item<bool>());
  EXPECT_EQ(output.sum().item<int64_t>(), values.select(1, 3).numel());
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, BatchNormReluGpu,
    ::testing::Combine(::testing::Values(std::vector<int64_t>{2, 8, 1, 1}, std::vector<int64_t>{3, 20, 5, 7},
                                         std::vector<int64_t>{2, 2116, 1, 3}, std::vector<int64_t>{16, 640, 8, 8},
                                         std::vector<int64_t>{64, 16, 32, 32}, std::vector<int64_t>{33, 96, 31, 29}),
                       ::testing::Bool()));

}  // namespace
}  // namespace ddprun
