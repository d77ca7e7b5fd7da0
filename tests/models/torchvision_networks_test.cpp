// SPDX-License-Identifier: MIT
// The networks that have torchvision's names: their tensors by SHA-256 and logits of formulas, both as torchvision 0.26
// gives them. network_parity_test.py compares with torchvision itself.
#include "models/model_under_test.h"

#include <ddprun/digest.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <map>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::map<std::string, at::Tensor> tensors_of(const Model& model) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& one : model.named_parameters()) tensors.emplace(one.key(), one.value());
  for (const auto& one : model.named_buffers()) tensors.emplace(one.key(), one.value());
  return tensors;
}

struct Network {
  const char* torchvisions_name;
  const char* plugin;
  OptionTexts options;
  int64_t parameters;
  const char* digest;  // of a line "conv1.weight [64, 3, 7, 7]" for each tensor, in the order of their names
};

void PrintTo(const Network& network, std::ostream* stream) { *stream << network.torchvisions_name; }

class TorchvisionNames : public ::testing::TestWithParam<Network> {};

TEST_P(TorchvisionNames, AndShapesAreThoseOfItsStateDict) {
  const auto model = prepared(GetParam().plugin, kImageNet, GetParam().options);
  std::string lines;
  for (const auto& [name, value] : tensors_of(*model)) lines += c10::str(name, " ", value.sizes(), "\n");
  Sha256 digest;
  digest.update(lines.data(), lines.size());
  EXPECT_EQ(numbers_in(*model), GetParam().parameters);
  EXPECT_EQ(digest.hex(), GetParam().digest) << lines;
}

INSTANTIATE_TEST_SUITE_P(
    Networks, TorchvisionNames,
    ::testing::Values(
        Network{"resnet50",
                "resnet",
                {{"depth", "50"}},
                25557032,
                "98fcefba1b06f509a0fbf50757db13659d4fb3dc3b1f43aef4ed2da77b133fbe"},
        Network{"wide_resnet50_2",
                "resnet",
                {{"depth", "50"}, {"width", "128"}},
                68883240,
                "1f3be5b53e4620957bd8120f8c057da75ab27e3ea6b1d61c79b151e6771d601d"},
        Network{"resnext50_32x4d",
                "resnet",
                {{"depth", "50"}, {"width", "4"}, {"groups", "32"}},
                25028904,
                "068775a8790c1d34e2434ce47125e8ae7e1f8bfd6d1b2c55d3f558ba8921d08c"},
        Network{"vit_b_16", "vit", {}, 86567656, "293fb0392e98dbd921603a3696bb89b7b4b2ef0ec9e501f4d6ab09a7a40b04d0"},
        Network{"mobilenet_v3_large",
                "mobilenet_v3",
                {},
                5483032,
                "9be702a63b689480dca5c20035c79899bf024857045fec815707d220b82fc66a"},
        Network{"mobilenet_v3_small",
                "mobilenet_v3",
                {{"size", "small"}},
                2542856,
                "9116f09c07de7c571c995f5e1e3a8f6a9c3c68f3e14df64442bb17a3001ea19b"},
        Network{"convnext_tiny",
                "convnext",
                {},
                28589128,
                "00f52956e8dfc5b5891080465b32689639c87c4a0cc42b09bdb915370e521552"}),
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
  const char* plugin;
  OptionTexts options;
  int64_t side;
  std::vector<double> logits;
};

void PrintTo(const Drawn& network, std::ostream* stream) { *stream << network.torchvisions_name; }

class TorchvisionLogits : public ::testing::TestWithParam<Drawn> {};

TEST_P(TorchvisionLogits, AreThoseOfTheSameWeights) {
  const auto& [name, plugin, options, side, logits] = GetParam();
  const auto model = prepared(plugin, {.sample_shape = {3, side, side}, .classes = 3}, options);
  model->eval();
  torch::manual_seed(1);
  draw_tensors(*model);
  const torch::NoGradGuard no_gradients;
  const auto found = model->forward(torch::randn({2, 3, side, side}))[0];
  EXPECT_TRUE(torch::allclose(found, torch::tensor(logits, torch::kFloat), 1e-3, 1e-5)) << found;
}

INSTANTIATE_TEST_SUITE_P(
    Networks, TorchvisionLogits,
    ::testing::Values(
        Drawn{"resnet18", "resnet", {}, 64, {5.63179, -16.7082, 7.51665}},
        Drawn{"resnet50", "resnet", {{"depth", "50"}}, 64, {258.713, -571.606, -593.946}},
        Drawn{"resnext50_32x4d",
              "resnet",
              {{"depth", "50"}, {"width", "4"}, {"groups", "32"}},
              64,
              {-71.9431, -318.272, -10.9755}},
        Drawn{"mobilenet_v3_large", "mobilenet_v3", {}, 64, {-0.82732, -12.2099, -7.48444}},
        Drawn{"mobilenet_v3_small", "mobilenet_v3", {{"size", "small"}}, 64, {0.034893, -0.131124, 0.0514259}},
        Drawn{"vit",
              "vit",
              {{"patch", "4"}, {"depth", "2"}, {"heads", "3"}, {"width", "12"}, {"mlp", "24"}},
              16,
              {-0.748269, 1.25305, -1.71909}},
        Drawn{"convnext",
              "convnext",
              {{"widths", "[8, 12, 16, 20]"}, {"depths", "[1, 1, 2, 1]"}},
              32,
              {0.480984, -1.11052, 2.07048}}),
    [](const auto& test) { return std::string(test.param.torchvisions_name); });

TEST(VisionTransformer, TakesImagesThatAreNotSquareAndStartsWithoutAnOpinion) {
  const auto model = prepared("vit", {.sample_shape = {1, 8, 12}, .classes = 5}, {{"size", "tiny"}, {"patch", "4"}});
  EXPECT_EQ(model->named_parameters()["encoder.pos_embedding"].sizes(), at::IntArrayRef({1, 7, 192}));
  EXPECT_TRUE(torch::equal(model->forward(torch::randn({2, 1, 8, 12})), torch::zeros({2, 5})));
}

TEST(VisionTransformer, NamesWhatDoesNotDivide) {
  EXPECT_THAT(error_of_preparing("vit", {.sample_shape = {3, 32, 24}, .classes = 2}),
              AllOf(HasSubstr("patches of 16 x 16, but the dataset's are 32 x 24"), HasSubstr("model.patch")));
  EXPECT_THAT(error_of_making("vit", {{"heads", "5"}}), HasSubstr("part.heads: expected a divisor of width, 768"));
}

TEST(VisionTransformer, DropsOnlyInTraining) {
  const DataSpec data{.sample_shape = {3, 8, 8}, .classes = 2};
  for (const auto* kind : {"dropout", "attention_dropout"}) {
    const auto model = prepared("vit", data, {{"size", "tiny"}, {"depth", "1"}, {"patch", "4"}, {kind, "0.5"}});
    torch::manual_seed(1);
    draw_tensors(*model);
    const auto input = torch::randn({2, 3, 8, 8});
    EXPECT_FALSE(torch::equal(model->forward(input), model->forward(input))) << kind;
    model->eval();
    EXPECT_TRUE(torch::equal(model->forward(input), model->forward(input))) << kind;
  }
}

TEST(ResNet, HasWidthAndGroupsOnlyInBottlenecks) {
  EXPECT_THAT(error_of_making("resnet", {{"depth", "34"}, {"width", "128"}}), HasSubstr("it is for bottlenecks"));
  EXPECT_THAT(error_of_making("resnet", {{"groups", "2"}}), HasSubstr("set depth to 50, 101 or 152"));
}

// Two blocks, of which the second is left out for half of the samples and counts twice for the others.
TEST(ConvNeXt, LeavesOutBlocksBySampleInTraining) {
  const DataSpec data{.sample_shape = {3, 8, 8}, .classes = 2};
  const auto model = prepared("convnext", data, {{"widths", "[6]"}, {"depths", "[2]"}, {"stochastic_depth", "0.5"}});
  draw_tensors(*model);
  const auto input = torch::randn({16, 3, 8, 8});
  torch::manual_seed(5);
  const auto trained = model->forward(input);
  torch::manual_seed(5);
  const auto factors = torch::empty({16, 1, 1, 1}).bernoulli_(0.5).div_(0.5);
  ASSERT_TRUE(factors.eq(0).any().item<bool>() && factors.eq(2).any().item<bool>());
  model->eval();
  const torch::NoGradGuard no_gradients;
  auto scale = model->named_parameters()["features.1.1.layer_scale"];
  scale.mul_(2);
  const auto twice = model->forward(input);
  scale.zero_();
  EXPECT_TRUE(
      torch::allclose(trained, torch::where(factors.view({16, 1}).eq(0), model->forward(input), twice), 1e-4, 1e-5));
}

TEST(ConvNeXt, NamesSizesThatDoNotFit) {
  EXPECT_THAT(error_of_making("convnext", {{"widths", "[8, 16]"}}), HasSubstr("as many numbers as widths has, 2"));
  const DataSpec small{.sample_shape = {3, 28, 28}, .classes = 2};
  EXPECT_THAT(error_of_preparing("convnext", small), HasSubstr("at least 32 x 32"));
  const OptionTexts fitting{{"widths", "[4, 4, 4, 4]"}, {"depths", "[1, 1, 1, 1]"}, {"patch", "2"}};
  EXPECT_EQ(error_of_preparing("convnext", small, fitting), "");
}

}  // namespace
}  // namespace ddprun
