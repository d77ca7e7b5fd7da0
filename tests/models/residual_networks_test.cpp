// SPDX-License-Identifier: MIT
#include "comm/shared_buffers.h"
#include "models/model_under_test.h"
#include "support/ranks.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

namespace F = torch::nn::functional;

const DataSpec kCifar100{.sample_shape = {3, 32, 32}, .classes = 100};

std::vector<std::string> names_of(const Model& model) { return model.named_parameters().keys(); }

// The paper has 36.5 M for WRN-28-10 on CIFAR-10, 0.6 M for WRN-40-1, 2.7 M for WRN-16-4, 8.9 M for WRN-40-4.
TEST(WideResNet, HasAsManyParametersAsPublished) {
  EXPECT_EQ(numbers_in(*prepared("wide_resnet", kCifar10)), 36479194);
  EXPECT_EQ(numbers_in(*prepared("wide_resnet", kCifar10, {{"depth", "40"}, {"widen_factor", "1"}})), 563930);
  EXPECT_EQ(numbers_in(*prepared("wide_resnet", kCifar10, {{"depth", "16"}, {"widen_factor", "4"}})), 2748890);
  EXPECT_EQ(numbers_in(*prepared("wide_resnet", kCifar10, {{"depth", "40"}, {"widen_factor", "4"}})), 8949210);
}

TEST(WideResNet, NamesItsModulesAsTheCommonPyTorchVersion) {
  const auto names = names_of(*prepared("wide_resnet", kCifar10, {{"depth", "16"}, {"widen_factor", "2"}}));
  for (const auto* name : {"conv1.weight", "block1.layer.0.bn1.weight", "block1.layer.0.convShortcut.weight",
                           "block3.layer.1.conv2.weight", "bn1.bias", "fc.bias"}) {
    EXPECT_THAT(names, Contains(name));
  }
  EXPECT_THAT(names, Not(Contains("block1.layer.1.convShortcut.weight")));
  EXPECT_THAT(names_of(*prepared("wide_resnet", kCifar10, {{"depth", "10"}, {"widen_factor", "1"}})),
              Not(Contains("block1.layer.0.convShortcut.weight")));  // 16 channels in, 16 out
}

TEST(WideResNet, RefusesADepthThatItsBlocksCannotMake) {
  EXPECT_THAT(error_of_making("wide_resnet", {{"depth", "20"}}),
              HasSubstr("test.yaml:4:20: part.depth: expected 6 n + 4, such as 16 or 22, found 20"));
  EXPECT_THAT(error_of_making("wide_resnet", {{"depth", "4"}}), HasSubstr("expected int 10 .. 1000, found 4"));
}

TEST(WideResNet, DropsOnlyInTraining) {
  const OptionTexts small{{"depth", "10"}, {"widen_factor", "1"}};
  const auto model = prepared("wide_resnet", kCifar10, {small[0], small[1], {"dropout", "0.5"}});
  const auto input = torch::rand({2, 3, 32, 32});
  EXPECT_FALSE(torch::equal(model->forward(input), model->forward(input)));
  const auto without = prepared("wide_resnet", kCifar10, small);
  EXPECT_TRUE(torch::equal(without->forward(input), without->forward(input)));
}

// torchvision's resnet18 and resnet34 for ImageNet; with the small stem and 10 classes the well-known 11.17 M.
TEST(ResNet, HasAsManyParametersAsPublished) {
  EXPECT_EQ(numbers_in(*prepared("resnet", kImageNet)), 11689512);
  EXPECT_EQ(numbers_in(*prepared("resnet", kImageNet, {{"depth", "34"}})), 21797672);
  EXPECT_EQ(numbers_in(*prepared("resnet", kCifar10)), 11173962);
  EXPECT_EQ(numbers_in(*prepared("resnet", kCifar100)), 11220132);
}

TEST(ResNet, NamesItsModulesAsTorchvision) {
  const auto model = prepared("resnet", kImageNet);
  const auto names = names_of(*model);
  EXPECT_EQ(names.size(), 62U);
  EXPECT_EQ(model->named_buffers().size(), 60U);
  for (const auto* name : {"conv1.weight", "bn1.weight", "layer1.1.conv2.weight", "layer2.0.downsample.0.weight",
                           "layer4.0.downsample.1.bias", "fc.weight"}) {
    EXPECT_THAT(names, Contains(name));
  }
}

TEST(ResNet, ChoosesItsStemByTheImages) {
  const auto first_kernel = [](const DataSpec& data, const OptionTexts& options = {}) {
    return prepared("resnet", data, options)->named_parameters()["conv1.weight"].size(2);
  };
  EXPECT_EQ(first_kernel(kCifar10), 3);
  EXPECT_EQ(first_kernel(kImageNet), 7);
  EXPECT_EQ(first_kernel({.sample_shape = {3, 64, 64}, .classes = 2}), 7);
  EXPECT_EQ(first_kernel(kCifar10, {{"stem", "imagenet"}}), 7);
  EXPECT_EQ(first_kernel(kImageNet, {{"stem", "cifar"}}), 3);
  EXPECT_EQ(prepared("resnet", kCifar10, {{"stem", "imagenet"}})->forward(torch::rand({2, 3, 32, 32})).sizes(),
            at::IntArrayRef({2, 10}));
}

TEST(ResNet, RefusesDepthsThatItDoesNotHave) {
  EXPECT_THAT(error_of_making("resnet", {{"depth", "51"}}), HasSubstr("18 | 34 | 50 | 101 | 152"));
  EXPECT_THAT(error_of_preparing("resnet", {.sample_shape = {3, 7, 32}, .classes = 2}), HasSubstr("at least 8 x 8"));
  EXPECT_THAT(error_of_preparing("wide_resnet", {.sample_shape = {32}, .classes = 2}), HasSubstr("[32]"));
}

// One batch of four, whole and in shares of 3 and 1.
TEST(WideResNet, NormalizesOverAllRanksWhenSynchronized) {
  const OptionTexts small{{"depth", "10"}, {"widen_factor", "2"}};
  const auto alone = prepared("wide_resnet", kCifar10, small);
  const auto input = torch::rand({4, 3, 32, 32});
  const auto expected = alone->forward(input);
  F::cross_entropy(expected, torch::arange(4)).backward();
  const std::vector<std::shared_ptr<Model>> models{prepared("wide_resnet", kCifar10, small),
                                                   prepared("wide_resnet", kCifar10, small)};
  testing::on_ranks(2, [&](Communicator& communicator) {
    const auto rank = communicator.world().rank;
    synchronize_batch_norm(*models[rank], communicator);
    const auto begin = rank == 0 ? 0 : 3, end = rank == 0 ? 3 : 4;
    const auto output = models[rank]->forward(input.slice(0, begin, end));
    EXPECT_TRUE(torch::allclose(output, expected.slice(0, begin, end), 1e-4, 1e-5));
    const auto weight = static_cast<double>(end - begin) * 2 / 4;
    (F::cross_entropy(output, torch::arange(begin, end)) * weight).backward();
    for (const auto& entry : models[rank]->named_parameters()) {
      auto gradient = entry.value().grad() / 2;
      communicator.sum(gradient);
      EXPECT_TRUE(torch::allclose(gradient, alone->named_parameters()[entry.key()].grad(), 1e-3, 1e-4)) << entry.key();
    }
  });
}

}  // namespace
}  // namespace ddprun
