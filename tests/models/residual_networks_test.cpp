// SPDX-License-Identifier: MIT
#include "comm/shared_buffers.h"
#include "models/model_under_test.h"
#include "support/ranks.h"

#include <ddprun/digest.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <map>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Not;

namespace F = torch::nn::functional;

TEST(WideResNet, HasAShortcutOnlyWhereTheChannelsChange) {
  const auto names = [](const char* depth, const char* widen_factor) {
    return prepared("wide_resnet", kCifar10, {{"depth", depth}, {"widen_factor", widen_factor}})
        ->named_parameters()
        .keys();
  };
  EXPECT_THAT(names("16", "2"), AllOf(Contains("block1.layer.0.convShortcut.weight"),
                                      Not(Contains("block1.layer.1.convShortcut.weight"))));
  EXPECT_THAT(names("10", "1"), Not(Contains("block1.layer.0.convShortcut.weight")));  // 16 channels in, 16 out
}

TEST(WideResNet, DropsOnlyInTraining) {
  const OptionTexts small{{"depth", "10"}, {"widen_factor", "1"}};
  const auto model = prepared("wide_resnet", kCifar10, {small[0], small[1], {"dropout", "0.5"}});
  const auto input = torch::rand({2, 3, 32, 32});
  EXPECT_FALSE(torch::equal(model->forward(input), model->forward(input)));
  const auto without = prepared("wide_resnet", kCifar10, small);
  EXPECT_TRUE(torch::equal(without->forward(input), without->forward(input)));
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

// The networks that have torchvision's names: their tensors by SHA-256 and logits of formulas, both as torchvision 0.26
// gives them. network_parity_test.py compares with torchvision itself.

std::map<std::string, at::Tensor> tensors_of(const Model& model) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& one : model.named_parameters()) tensors.emplace(one.key(), one.value());
  for (const auto& one : model.named_buffers()) tensors.emplace(one.key(), one.value());
  return tensors;
}

struct Network {
  const char* torchvisions_name;
  OptionTexts options;
  int64_t parameters;
  const char* digest;  // of a line "conv1.weight [64, 3, 7, 7]" for each tensor, in the order of their names
};

void PrintTo(const Network& network, std::ostream* stream) { *stream << network.torchvisions_name; }

class TorchvisionNames : public ::testing::TestWithParam<Network> {};

TEST_P(TorchvisionNames, AndShapesAreThoseOfItsStateDict) {
  const auto model = prepared("resnet", kImageNet, GetParam().options);
  std::string lines;
  for (const auto& [name, value] : tensors_of(*model)) lines += c10::str(name, " ", value.sizes(), "\n");
  Sha256 digest;
  digest.update(lines.data(), lines.size());
  EXPECT_EQ(numbers_in(*model), GetParam().parameters);
  EXPECT_EQ(digest.hex(), GetParam().digest) << lines;
}

INSTANTIATE_TEST_SUITE_P(Networks, TorchvisionNames,
                         ::testing::Values(Network{"resnet50",
                                                   {{"depth", "50"}},
                                                   25557032,
                                                   "98fcefba1b06f509a0fbf50757db13659d4fb3dc3b1f43aef4ed2da77b133fbe"},
                                           Network{"wide_resnet50_2",
                                                   {{"depth", "50"}, {"width", "128"}},
                                                   68883240,
                                                   "1f3be5b53e4620957bd8120f8c057da75ab27e3ea6b1d61c79b151e6771d601d"},
                                           Network{"resnext50_32x4d",
                                                   {{"depth", "50"}, {"width", "4"}, {"groups", "32"}},
                                                   25028904,
                                                   "068775a8790c1d34e2434ce47125e8ae7e1f8bfd6d1b2c55d3f558ba8921d08c"}),
                         [](const auto& test) { return std::string(test.param.torchvisions_name); });

// Draws all numbers of a network in the order of the names, so that activations neither vanish nor grow much.
void draw_tensors(Model& model) {
  const torch::NoGradGuard no_gradients;
  for (auto& [name, value] : tensors_of(model)) {
    if (!value.is_floating_point()) continue;
    if (value.dim() > 1) {
      value.copy_(torch::randn(value.sizes()) * std::sqrt(2.0 * static_cast<double>(value.size(0)) / value.numel()));
    } else if (name.ends_with("weight") || name.ends_with("running_var")) {
      value.copy_(torch::rand(value.sizes()) * 0.2 + 0.9);
    } else {
      value.copy_(torch::randn(value.sizes()) * 0.1);
    }
  }
}

struct Drawn {
  const char* torchvisions_name;
  OptionTexts options;
  std::vector<double> logits;
};

void PrintTo(const Drawn& network, std::ostream* stream) { *stream << network.torchvisions_name; }

class TorchvisionLogits : public ::testing::TestWithParam<Drawn> {};

TEST_P(TorchvisionLogits, AreThoseOfTheSameWeights) {
  const auto& [name, options, logits] = GetParam();
  const auto model = prepared("resnet", {.sample_shape = {3, 64, 64}, .classes = 3}, options);
  model->eval();
  torch::manual_seed(1);
  draw_tensors(*model);
  const torch::NoGradGuard no_gradients;
  const auto found = model->forward(torch::randn({2, 3, 64, 64}))[0];
  EXPECT_TRUE(torch::allclose(found, torch::tensor(logits, torch::kFloat), 1e-3, 1e-5)) << found;
}

INSTANTIATE_TEST_SUITE_P(Networks, TorchvisionLogits,
                         ::testing::Values(Drawn{"resnet18", {}, {5.63179, -16.7082, 7.51665}},
                                           Drawn{"resnet50", {{"depth", "50"}}, {258.713, -571.606, -593.946}},
                                           Drawn{"resnext50_32x4d",
                                                 {{"depth", "50"}, {"width", "4"}, {"groups", "32"}},
                                                 {-71.9431, -318.272, -10.9755}}),
                         [](const auto& test) { return std::string(test.param.torchvisions_name); });

}  // namespace
}  // namespace ddprun
