// SPDX-License-Identifier: MIT
// Batch normalisation on a GPU beside the CPU's float32, in all its forms: LibTorch has other kernels there for each of
// them.
#include "gpu/gpu_test.h"

#include <ddprun/batch_norm.h>

#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <tuple>

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

}  // namespace
}  // namespace ddprun
