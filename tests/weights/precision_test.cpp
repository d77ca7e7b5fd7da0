// SPDX-License-Identifier: MIT
#include "weights/precision.h"

#include "support/toy.h"

#include <ddprun/batch_norm.h>

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

at::ScalarType product_type() { return torch::mm(torch::ones({2, 2}), torch::ones({2, 2})).scalar_type(); }

TEST(Precision, AutocastLastsAsLongAsItsScope) {
  const Precision precision({.precision = PrecisionMode::kBf16}, at::kCPU);
  const auto single = Precision({}, at::kCPU).autocast();
  EXPECT_EQ(product_type(), at::kFloat);
  {
    const auto scope = precision.autocast();
    EXPECT_EQ(product_type(), at::kBFloat16);
    {
      const auto inner = Precision({.precision = PrecisionMode::kFp16}, at::kCPU).autocast();
      EXPECT_EQ(product_type(), at::kHalf);
    }
    EXPECT_EQ(product_type(), at::kBFloat16);
  }
  EXPECT_EQ(product_type(), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Precision, ProductsOfFloat32AreTorchsUnlessTheExactOnesAreAskedFor) {
  const auto& context = at::globalContext();
  const bool convolutions = context.allowTF32CuDNN();
  const auto products = context.float32MatmulPrecision();
  const auto is = [&](PrecisionMode precision) {
    set_product_precision({.precision = precision});
    return std::pair(context.allowTF32CuDNN(), context.float32MatmulPrecision());
  };
  EXPECT_EQ(is(PrecisionMode::kFp32Exact), std::pair(false, at::Float32MatmulPrecision::HIGHEST));
  EXPECT_EQ(is(PrecisionMode::kTf32), std::pair(true, at::Float32MatmulPrecision::HIGH));
  EXPECT_EQ(is(PrecisionMode::kFp32), std::pair(convolutions, products));
}

TEST(Precision, OnlyFp16NeedsAScaler) {
  EXPECT_TRUE(Precision({.precision = PrecisionMode::kFp16}, at::kCPU).scales_gradients());
  for (const auto word : WordsOf<PrecisionMode>::kAll) {
    const auto other = enum_of<PrecisionMode>(word).value();
    if (other == PrecisionMode::kFp16) continue;
    EXPECT_FALSE(Precision({.precision = other}, at::kCPU).scales_gradients());
  }
}

TEST(Precision, PureBf16ConvertsWeightsAndInputsThatAreNoIntegers) {
  testing::ToyModel model;
  model.prepare({.sample_shape = {8}, .classes = 3});
  const Precision precision({.precision = PrecisionMode::kBf16Pure}, at::kCPU);
  precision.convert(model);
  const auto batch = precision.converted({.input = torch::ones({2, 8}),
                                          .target = torch::zeros({2}, at::kLong),
                                          .extras = {{"age", torch::ones({2}, at::kLong)},
                                                     {"factor", torch::ones({2})},
                                                     {"mask", torch::ones({2, 8}, at::kBool)}}});
  EXPECT_EQ(model.forward(batch.input).scalar_type(), at::kBFloat16);
  EXPECT_EQ(batch.extra("factor").scalar_type(), at::kBFloat16);
  EXPECT_EQ(batch.extra("age").scalar_type(), at::kLong);
  EXPECT_EQ(batch.extra("mask").scalar_type(), at::kBool);
}

// In bfloat16 there is no number between 256 and 258, and an index is no number at all.
TEST(Precision, PureBf16LeavesIntegersAsTheyAre) {
  class Counting final : public Model {
   public:
    Counting() {
      norm_ = register_module("norm", BatchNorm(4));
      order_ = register_buffer("order", torch::tensor({3, 1, 2, 0}));
    }
    at::Tensor forward(const at::Tensor& input) override { return norm_(input.index_select(1, order_)); }

   private:
    BatchNorm norm_{nullptr};
    at::Tensor order_;
  } model;
  const Precision precision({.precision = PrecisionMode::kBf16Pure}, at::kCPU);
  precision.convert(model);
  auto batches = model.named_buffers()["norm.num_batches_tracked"];
  batches.fill_(256);
  model.forward(precision.converted({.input = torch::randn({3, 4})}).input);
  EXPECT_EQ(batches.item<int64_t>(), 257);
}

class Convolution final : public Model {
 public:
  Convolution() { conv = register_module("conv", torch::nn::Conv2d(3, 4, 3)); }
  at::Tensor forward(const at::Tensor& input) override { return conv(input); }
  torch::nn::Conv2d conv{nullptr};
};

TEST(Precision, ChannelsLastReachesFiltersAndImages) {
  Convolution model;
  Precision precision({}, at::kCPU);
  precision.set_memory_format(MemoryFormat::kChannelsLast);
  const auto before = model.conv->weight;
  precision.convert(model);
  EXPECT_TRUE(model.conv->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(before.is_same(model.conv->weight));
  const auto batch = precision.converted({.input = torch::ones({2, 3, 8, 8})});
  EXPECT_TRUE(model.forward(batch.input).is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(MemoryFormat, SetsTheStridesOfOneChannelToo) {
  const auto images = torch::rand({2, 1, 4, 5});
  const auto last = in_memory_format(images, MemoryFormat::kChannelsLast);
  EXPECT_EQ(last.strides(), at::IntArrayRef({20, 1, 5, 1}));
  EXPECT_EQ(last.data_ptr(), images.data_ptr());
  EXPECT_EQ(in_memory_format(last, MemoryFormat::kChannelsFirst).strides(), at::IntArrayRef({20, 20, 5, 1}));
}

TEST(MemoryFormat, KeepsTheNumbers) {
  const auto images = torch::rand({2, 3, 4, 5});
  const auto last = in_memory_format(images, MemoryFormat::kChannelsLast);
  EXPECT_EQ(last.strides(), at::IntArrayRef({60, 1, 15, 3}));
  EXPECT_TRUE(last.equal(images));
  EXPECT_TRUE(in_memory_format(last, MemoryFormat::kChannelsFirst).equal(images));
  EXPECT_TRUE(in_memory_format(images, MemoryFormat::kChannelsFirst).is_same(images));
}

TEST(MemoryFormat, OfOneChannelReachesWhatConvolutionsGive) {
  torch::nn::Conv2d conv(1, 4, 3);
  const torch::NoGradGuard no_gradients;
  conv->weight.set_data(in_memory_format(conv->weight, MemoryFormat::kChannelsLast));
  const auto output = conv(in_memory_format(torch::rand({2, 1, 8, 8}), MemoryFormat::kChannelsLast));
  EXPECT_TRUE(output.is_contiguous(at::MemoryFormat::ChannelsLast));
}

// What takes part in the choice is all that there is to equal commands: no clock.
TEST(MemoryFormat, ChosenByItselfDependsOnTheNetworkTheDeviceAndThePrecision) {
  const Convolution filters;
  const testing::ToyModel without_filters;
  const DataSpec images{.sample_shape = {3, 8, 8}}, vectors{.sample_shape = {8}};
  const auto last = MemoryFormat::kChannelsLast, first = MemoryFormat::kChannelsFirst;
  EXPECT_EQ(suitable_memory_format(filters, images, PrecisionMode::kFp32, at::kCPU), last);
  EXPECT_EQ(suitable_memory_format(filters, images, PrecisionMode::kFp32Exact, at::kCUDA), first);
  for (const auto precision : {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kBf16, PrecisionMode::kFp16,
                               PrecisionMode::kBf16Pure}) {
    EXPECT_EQ(suitable_memory_format(filters, images, precision, at::kCUDA), last);
    EXPECT_EQ(suitable_memory_format(filters, vectors, precision, at::kCUDA), first);
    EXPECT_EQ(suitable_memory_format(without_filters, images, precision, at::kCPU), first);
  }
}

}  // namespace
}  // namespace ddprun
