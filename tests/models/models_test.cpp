// SPDX-License-Identifier: MIT
#include "models/model_under_test.h"

#include <ddprun/testing.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <tuple>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace F = torch::nn::functional;

// A small one of each kind.
class AnyModel : public ::testing::TestWithParam<std::pair<const char*, OptionTexts>> {
 protected:
  static std::shared_ptr<Model> made_for(const DataSpec& data) {
    return prepared(GetParam().first, data, GetParam().second);
  }
};

TEST_P(AnyModel, GivesLogitsForEachClass) {
  EXPECT_EQ(made_for(kMnist)->forward(torch::rand({5, 1, 28, 28})).sizes(), at::IntArrayRef({5, 10}));
  EXPECT_EQ(made_for(kColour)->forward(torch::rand({2, 3, 33, 20})).sizes(), at::IntArrayRef({2, 7}));
}

TEST_P(AnyModel, EvaluatesTheSameEachTime) {
  const auto model = made_for(kMnist);
  const auto input = torch::rand({5, 1, 28, 28});
  model->eval();
  for (auto& weights : model->parameters()) weights.detach().add_(0.01);  // some heads start at 0
  EXPECT_TRUE(torch::equal(model->forward(input), model->forward(input)));
  EXPECT_FALSE(torch::allclose(model->forward(input), torch::zeros({5, 10})));
}

TEST_P(AnyModel, DrawsItsWeightsFromTheSeed) {
  const auto one = made_for(kMnist), two = made_for(kMnist);
  for (const auto& [name, value] : one->named_parameters().pairs()) {
    EXPECT_TRUE(torch::equal(value, two->named_parameters()[name])) << name;
  }
}

TEST_P(AnyModel, EveryParameterGetsAGradient) {
  const auto model = made_for(kMnist);
  F::cross_entropy(model->forward(torch::rand({4, 1, 28, 28})), torch::arange(4)).backward();
  for (const auto& [name, value] : model->named_parameters().pairs()) {
    EXPECT_TRUE(value.grad().defined() && value.grad().isfinite().all().item<bool>()) << name;
  }
}

TEST_P(AnyModel, RefusesDataWithoutClasses) {
  EXPECT_THAT(error_of_preparing(GetParam().first, {.sample_shape = {1, 28, 28}}), HasSubstr("no classes"));
}

INSTANTIATE_TEST_SUITE_P(
    Models, AnyModel,
    ::testing::Values(std::pair{"mlp", OptionTexts{}}, std::pair{"convnet", OptionTexts{}},
                      std::pair{"convnet_bn", OptionTexts{}}, std::pair{"keras_convnet", OptionTexts{}},
                      std::pair{"lenet", OptionTexts{}}, std::pair{"resnet", OptionTexts{}},
                      std::pair{"wide_resnet",
                                OptionTexts{{"depth", "10"}, {"widen_factor", "2"}, {"dropout", "0.3"}}}),
    [](const auto& test) { return std::string(test.param.first); });

// As published, or as the layers have them.
TEST(Models, HaveAsManyParametersAsTheirModelsElsewhere) {
  const DataSpec flat{.sample_shape = {6}, .classes = 3}, text{.sample_shape = {6}, .classes = 5};
  const DataSpec cifar100{.sample_shape = {3, 32, 32}, .classes = 100}, grey{.sample_shape = {1, 16, 16}, .classes = 2};
  const std::vector<std::tuple<const char*, DataSpec, OptionTexts, int64_t>> counts{
      {"mlp", kMnist, {}, 784 * 128 + 128 + 128 * 10 + 10},
      {"mlp", flat, {{"layers", "3"}, {"hidden", "4"}}, 6 * 4 + 4 + 2 * (4 * 4 + 4) + 4 * 3 + 3},
      {"mlp", flat, {{"layers", "0"}}, 6 * 3 + 3},
      {"convnet", kMnist, {}, 1199882},
      {"convnet_bn", kMnist, {}, 29034},
      {"lenet", kMnist, {}, 431080},
      {"wide_resnet", kCifar10, {}, 36479194},  // the paper has 36.5 M for WRN-28-10
      {"wide_resnet", kCifar10, {{"depth", "40"}, {"widen_factor", "1"}}, 563930},
      {"wide_resnet", kCifar10, {{"depth", "40"}, {"widen_factor", "4"}}, 8949210},
      {"resnet", kImageNet, {}, 11689512},
      {"resnet", kImageNet, {{"depth", "34"}}, 21797672},
      {"resnet", kCifar10, {}, 11173962},
      {"resnet", cifar100, {}, 11220132},
      {"unet", grey, {}, 31036546},  // the paper's network with padding, BatchNorm and one channel has 31.0 M
      {"transformer",                // reads and predicts with one matrix
       text,
       {{"width", "16"}, {"heads", "2"}, {"layers", "3"}},
       (5 + 6) * 16 + 3 * (12 * 16 * 16 + 13 * 16) + 2 * 16}};
  for (const auto& [name, data, options, count] : counts) EXPECT_EQ(numbers_in(*prepared(name, data, options)), count);
}

TEST(Models, NameTheirParametersAsTheirModelsInPython) {
  EXPECT_THAT(prepared("convnet", kMnist)->named_parameters().keys(),
              ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias",
                          "fc2.weight", "fc2.bias"));
  EXPECT_THAT(prepared("convnet_bn", kMnist)->named_parameters().keys(),
              ElementsAre("layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias", "layer2.0.weight",
                          "layer2.0.bias", "layer2.1.weight", "layer2.1.bias", "fc.weight", "fc.bias"));
}

DataSpec of_shape(std::vector<int64_t> shape, int64_t classes = 2) {
  return {.sample_shape = std::move(shape), .classes = classes};
}

TEST(Models, RefuseOptionsAndDataThatTheirLayersCannotTake) {
  const std::vector<std::tuple<const char*, DataSpec, OptionTexts, const char*>> refused{
      {"mlp", of_shape({6}, 0), {}, "model.outputs"},
      {"convnet", of_shape({1, 5, 28}), {}, "at least 6 x 6"},
      {"convnet", of_shape({784}), {}, "[784]"},
      {"convnet", of_shape({28, 28}), {}, "save pictures of one channel as [N, 1, 28, 28]"},
      {"convnet", kMnist, {{"dropout", "1.5"}}, "dropout"},
      {"convnet_bn", of_shape({1, 28, 3}), {}, "at least 4 x 4"},
      {"lenet", of_shape({1, 15, 28}), {}, "at least 16 x 16"},
      {"keras_convnet", of_shape({1, 5, 28}), {}, "at least 6 x 6"},
      {"unet", of_shape({3, 15, 64}), {}, "at least 16 x 16"},
      {"wide_resnet", of_shape({32}), {}, "[32]"},
      {"wide_resnet", kCifar10, {{"depth", "20"}}, "part.depth: expected 6 n + 4, such as 16 or 22, found 20"},
      {"wide_resnet", kCifar10, {{"depth", "4"}}, "expected int 10 .. 1000, found 4"},
      {"resnet", of_shape({3, 7, 32}), {}, "at least 8 x 8"},
      {"resnet", kCifar10, {{"depth", "51"}}, "18 | 34 | 50 | 101 | 152"},
      {"resnet", kCifar10, {{"depth", "34"}, {"width", "128"}}, "it is for bottlenecks"},
      {"resnet", kCifar10, {{"groups", "2"}}, "set depth to 50, 101 or 152"},
      {"transformer", kMnist, {}, "the dataset has samples of shape [1, 28, 28] in 10 classes; take the dataset text"},
      {"transformer", of_shape({6}, 0), {}, "in 0 classes"},
      {"transformer",
       of_shape({6}),
       {{"width", "10"}, {"heads", "4"}},
       "heads: expected a divisor of width, 10, found 4"},
      {"gan", of_shape({1, 8, 6}), {}, "sides divisible by 4"},
      {"gan", of_shape({64}), {}, "[64]"},
      {"gan", kMnist, {{"low", "1"}, {"high", "1"}}, "expected a number above low"}};
  for (const auto& [name, data, options, words] : refused)
    EXPECT_THAT(error_of_preparing(name, data, options), HasSubstr(words)) << name;
  EXPECT_EQ(error_of_preparing("lenet", of_shape({1, 16, 16})), "");
  EXPECT_EQ(error_of_preparing("convnet", of_shape({1, 6, 6})), "");
  EXPECT_EQ(error_of_preparing("keras_convnet", of_shape({1, 6, 6})), "");
  EXPECT_EQ(error_of_preparing("unet", of_shape({3, 15, 64}), {{"depth", "3"}}), "");
}

TEST(Mlp, PredictsAsManyValuesAsAskedWhereTheDataHaveNoClasses) {
  const auto model = prepared("mlp", of_shape({6}, 0), {{"outputs", "2"}});
  EXPECT_EQ(model->forward(torch::rand({4, 6})).sizes(), at::IntArrayRef({4, 2}));
}

TEST(ConvNet, DropsOnlyInTraining) {
  const auto model = prepared("convnet", kMnist);
  const auto input = torch::rand({2, 1, 28, 28});
  EXPECT_FALSE(torch::equal(model->forward(input), model->forward(input)));
  const auto without = prepared("convnet", kMnist, {{"dropout", "0"}});
  model->eval();
  EXPECT_TRUE(torch::equal(model->forward(input), without->forward(input)));
}

// The order of the tutorials: ReLU, then pooling.
at::Tensor textbook_convnet_bn(Model& model, at::Tensor x) {
  const auto p = model.named_parameters();
  for (const std::string layer : {"layer1", "layer2"}) {
    x = torch::conv2d(x, p[layer + ".0.weight"], p[layer + ".0.bias"], 1, 2);
    x = F::batch_norm(
        x, {}, {}, F::BatchNormFuncOptions().weight(p[layer + ".1.weight"]).bias(p[layer + ".1.bias"]).training(true));
    x = torch::max_pool2d(torch::relu(x), 2);
  }
  return torch::linear(x.flatten(1), p["fc.weight"], p["fc.bias"]);
}

TEST(ConvNetBn, PoolingBeforeTheReluChangesNoBitOfOutputsAndGradients) {
  const auto model = prepared("convnet_bn", kMnist);
  const auto input = torch::rand({6, 1, 28, 28});
  const auto target = torch::arange(6);
  const auto parameters = model->parameters();
  const auto ours = model->forward(input), textbook = textbook_convnet_bn(*model, input);
  EXPECT_TRUE(torch::equal(ours, textbook));
  const auto our_gradients = torch::autograd::grad({F::cross_entropy(ours, target)}, parameters);
  const auto gradients = torch::autograd::grad({F::cross_entropy(textbook, target)}, parameters);
  for (size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(torch::equal(our_gradients[i], gradients[i])) << i;
}

TEST(KerasConvNet, StartsAsKerasDoes) {
  const auto model = prepared("keras_convnet", kMnist);
  for (const auto& entry : model->named_parameters()) {
    if (entry.key().ends_with("bias")) {
      EXPECT_EQ(entry.value().abs().max().item<float>(), 0) << entry.key();
      continue;
    }
    const auto outputs = entry.value().size(0), inputs = entry.value().size(1);
    const auto taps = entry.value().numel() / (outputs * inputs);
    const auto bound = std::sqrt(6.0 / static_cast<double>((inputs + outputs) * taps));
    const auto largest = entry.value().abs().max().item<double>();
    EXPECT_LE(largest, bound) << entry.key();
    EXPECT_GT(largest, 0.9 * bound) << entry.key();
  }
}

// The network written down again, with the zeros of "same" padding laid by hand: `rows` and `columns` are those above,
// below, left and right of large_k's input.
at::Tensor textbook_keras(Model& model, at::Tensor x, std::pair<int, int> rows, std::pair<int, int> columns) {
  const auto p = model.named_parameters();
  const auto normalized = [&](const at::Tensor& input, const std::string& name) {
    return torch::relu(
        F::batch_norm(input, {}, {}, F::BatchNormFuncOptions().bias(p[name + ".bias"]).training(true).eps(1e-3)));
  };
  x = normalized(torch::conv2d(x, p["conv2d.weight"], {}, 1, 1), "batch_normalization");
  x = normalized(torch::conv2d(x, p["conv2d_1.weight"], {}, 2), "batch_normalization_1");
  const auto [top, bottom] = rows;
  const auto [left, right] = columns;
  auto framed = torch::zeros({x.size(0), 24, x.size(2) + top + bottom, x.size(3) + left + right});
  framed.slice(2, top, top + x.size(2)).slice(3, left, left + x.size(3)).copy_(x);
  x = normalized(torch::conv2d(framed, p["large_k.weight"], p["large_k.bias"], 2), "batch_normalization_2");
  x = torch::relu(torch::linear(x.mean({2, 3}), p["dense.weight"], p["dense.bias"]));
  return torch::linear(x, p["dense_1.weight"], p["dense_1.bias"]);
}

// network_parity_test.py has it of 12 x 12 before large_k, which is padded evenly.
TEST(KerasConvNet, PadsUnevenlyAsTensorFlowDoes) {
  const auto model = prepared("keras_convnet", of_shape({1, 30, 21}), {{"dropout", "0"}});
  const auto input = torch::rand({3, 1, 30, 21});  // 13 x 8: 7 outputs need 18, 4 need 12
  EXPECT_TRUE(torch::allclose(model->forward(input), textbook_keras(*model, input, {2, 3}, {2, 2}), 1e-5, 1e-6));
}

const DataSpec kPictures{.sample_shape = {2, 6, 9}, .classes = 3};

TEST(UNet, KeepsThePromisesOfAModel) {
  auto batch = check::random_batch(kPictures, 4);
  batch.target = batch.input.argmax(1) + batch.input.select(1, 0).gt(0.5);  // a class for each pixel
  const check::ModelTest net{
      .make = check::model_plugin(UNET_PLUGIN, {{"width", 4}, {"depth", 1}}), .data = kPictures, .batch = batch};
  EXPECT_THAT(check::all(net), IsEmpty());
}

TEST(UNet, GivesLogitsForEachPixelOfImagesOfAnySize) {
  for (const auto& [height, width] : {std::pair{32, 32}, std::pair{17, 23}, std::pair{16, 31}}) {
    const auto model = prepared("unet", {.sample_shape = {3, height, width}, .classes = 5}, {{"width", "4"}});
    EXPECT_EQ(model->forward(torch::randn({2, 3, height, width})).sizes(), at::IntArrayRef({2, 5, height, width}));
  }
}

TEST(UNet, HalvesItsWidthOnTheWayUp) {
  const auto model = prepared("unet", kPictures, {{"width", "4"}, {"depth", "1"}});
  EXPECT_EQ(model->named_parameters()["up.0.pair.conv1.weight"].sizes(), at::IntArrayRef({4, 8, 3, 3}));
}

}  // namespace
}  // namespace ddprun
