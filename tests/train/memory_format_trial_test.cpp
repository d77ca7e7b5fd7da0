// SPDX-License-Identifier: MIT
#include "metrics/objective.h"
#include "support/ranks.h"
#include "train/trials.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <utility>

namespace ddprun {
namespace {

// Pictures of noise in two classes.
class Pictures final : public Dataset {
 public:
  void start() override {}
  DataSpec spec() const override { return {.sample_shape = {1, 8, 8}, .classes = 2}; }
  int64_t size(Split split) const override { return split == Split::kTrain ? 6 : 0; }
  Batch get(Split, std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    return {.input = at::ones({count, 1, 8, 8}), .target = at::zeros({count}, at::kLong)};
  }
};

class Network final : public Model {
 public:
  void prepare(const DataSpec&) override {
    conv = register_module("conv", torch::nn::Conv2d(1, 4, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    head = register_module("head", torch::nn::Linear(4 * 36, 2));
  }
  at::Tensor forward(const at::Tensor& input) override {
    ++forwards;
    if (fails) throw std::runtime_error("broken");
    convolve(in_format(input) == slow ? 10 : 1);
    for (int i = 0; i < products; ++i) at::mm(at::ones({1024, 1024}), at::ones({1024, 1024}));
    return head(at::dropout(norm(conv(input)), 0.5, is_training()).flatten(1));
  }

  static void convolve(int times) {  // the trial counts what the processor has done
    const auto numbers = at::ones({1, 64, 64, 64}), filters = at::ones({64, 64, 3, 3});
    for (int i = 0; i < times; ++i) at::conv2d(numbers, filters);
  }
  static MemoryFormat in_format(const at::Tensor& input) {
    return input.stride(1) == 1 ? MemoryFormat::kChannelsLast : MemoryFormat::kChannelsFirst;
  }

  int forwards = 0;
  int products = 0;
  bool fails = false;
  MemoryFormat slow = MemoryFormat::kAuto;  // neither
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear head{nullptr};
};

std::unique_ptr<Objective> cross_entropy() {
  Options options(Value::map(), "objective");
  return make_objective("cross_entropy", options);
}

MemoryFormat find(Model& model, Communicator& communicator) {
  const auto objective = cross_entropy();
  const Pictures data;
  return find_memory_format({.model = model,
                             .objective = *objective,
                             .dataset = data,
                             .precision = {},
                             .device = at::kCPU,
                             .backend = nullptr,
                             .communicator = communicator,
                             .samples = 4});
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

TEST(MemoryFormatTrial, LeavesWeightsBuffersGradientsAndGeneratorsAsTheyWere) {
  Network model;
  model.prepare({});
  const auto weight = model.conv->weight.detach().clone(), mean = model.norm->running_mean.clone();
  const auto generator = at::detail::getDefaultCPUGenerator();
  const auto before = generator.get_state();
  Communicator alone({});
  find(model, alone);
  EXPECT_GT(model.forwards, 2);
  EXPECT_TRUE(model.conv->weight.equal(weight));
  EXPECT_TRUE(model.norm->running_mean.equal(mean));
  EXPECT_EQ(model.norm->num_batches_tracked.item<int64_t>(), 0);
  EXPECT_TRUE(generator.get_state().equal(before));
  for (const auto& parameter : model.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(MemoryFormatTrial, FindsTheFasterOne) {
  Communicator alone({});
  for (const auto& [slow, fast] : {std::pair(MemoryFormat::kChannelsFirst, MemoryFormat::kChannelsLast),
                                   std::pair(MemoryFormat::kChannelsLast, MemoryFormat::kChannelsFirst)}) {
    Network model;
    model.prepare({});
    model.slow = slow;
    EXPECT_EQ(find(model, alone), fast);
  }
}

TEST(MemoryFormatTrial, DoesNotTryANetworkWithoutFilters) {
  class Linear final : public Model {
   public:
    Linear() { layer = register_module("layer", torch::nn::Linear(64, 2)); }
    at::Tensor forward(const at::Tensor&) override { throw std::runtime_error("it is not asked"); }
    torch::nn::Linear layer{nullptr};
  } model;
  Communicator alone({});
  EXPECT_EQ(find(model, alone), MemoryFormat::kChannelsFirst);
}

TEST(MemoryFormatTrial, DoesNotTryANetworkWithFewConvolutions) {
  Network model;
  model.prepare({});
  model.products = 20;
  Communicator alone({});
  EXPECT_EQ(find(model, alone), MemoryFormat::kChannelsFirst);
  EXPECT_EQ(model.forwards, 1);
}

TEST(MemoryFormatTrial, LeavesAFailureToTheFirstStep) {
  Network model;
  model.prepare({});
  model.fails = true;
  Communicator alone({});
  EXPECT_EQ(find(model, alone), MemoryFormat::kChannelsFirst);
  EXPECT_EQ(model.forwards, 1);
}

TEST(MemoryFormatTrial, GivesAllRanksOneAnswer) {
  std::array<MemoryFormat, 3> found{};
  testing::on_ranks(3, [&](Communicator& communicator) {
    Network model;
    model.prepare({});
    model.fails = communicator.world().rank == 1;
    found[static_cast<size_t>(communicator.world().rank)] = find(model, communicator);
  });
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

}  // namespace
}  // namespace ddprun
