// SPDX-License-Identifier: MIT
#include <ddprun/error.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "plugin_host/make_choice.h"
#include "plugin_host/plugin_host.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace F = torch::nn::functional;

using OptionTexts = std::vector<std::pair<std::string, std::string>>;

const DataSpec kMnist{.sample_shape = {1, 28, 28}, .classes = 10};
const DataSpec kColour{.sample_shape = {3, 33, 20}, .classes = 7};

std::shared_ptr<Model> unprepared(const std::string& name, const OptionTexts& options = {}) {
  return PluginHost(plugin_search_path({})).make_model(make_choice(name, options));
}

std::shared_ptr<Model> prepared(const std::string& name, const DataSpec& data, const OptionTexts& options = {}) {
  torch::manual_seed(3);
  auto model = unprepared(name, options);
  model->prepare(data);
  return model;
}

int64_t numbers_in(const Model& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::string error_of_preparing(const std::string& name, const DataSpec& data) try {
  unprepared(name)->prepare(data);
  return "";
} catch (const UserError& error) {
  return error.what();
}

class AnyModel : public testing::TestWithParam<const char*> {};

TEST_P(AnyModel, GivesLogitsForEachClass) {
  EXPECT_EQ(prepared(GetParam(), kMnist)->forward(torch::rand({5, 1, 28, 28})).sizes(), at::IntArrayRef({5, 10}));
  EXPECT_EQ(prepared(GetParam(), kColour)->forward(torch::rand({2, 3, 33, 20})).sizes(), at::IntArrayRef({2, 7}));
}

TEST_P(AnyModel, EvaluatesTheSameEachTime) {
  const auto model = prepared(GetParam(), kMnist);
  const auto input = torch::rand({5, 1, 28, 28});
  model->eval();
  EXPECT_TRUE(torch::equal(model->forward(input), model->forward(input)));
  EXPECT_FALSE(torch::allclose(model->forward(input), torch::zeros({5, 10})));
}

TEST_P(AnyModel, DrawsItsWeightsFromTheSeed) {
  const auto one = prepared(GetParam(), kMnist), two = prepared(GetParam(), kMnist);
  for (const auto& [name, value] : one->named_parameters().pairs()) {
    EXPECT_TRUE(torch::equal(value, two->named_parameters()[name])) << name;
  }
}

TEST_P(AnyModel, EveryParameterGetsAGradient) {
  const auto model = prepared(GetParam(), kMnist);
  F::cross_entropy(model->forward(torch::rand({4, 1, 28, 28})), torch::arange(4)).backward();
  for (const auto& [name, value] : model->named_parameters().pairs()) {
    EXPECT_TRUE(value.grad().defined() && value.grad().isfinite().all().item<bool>()) << name;
  }
}

TEST_P(AnyModel, RefusesDataWithoutClasses) {
  EXPECT_THAT(error_of_preparing(GetParam(), {.sample_shape = {1, 28, 28}}), HasSubstr("no classes"));
}

INSTANTIATE_TEST_SUITE_P(Models, AnyModel, testing::Values("mlp", "convnet", "convnet_bn"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Models, HaveAsManyParametersAsTheirModelsInPython) {
  EXPECT_EQ(numbers_in(*prepared("mlp", kMnist)), 784 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(numbers_in(*prepared("convnet", kMnist)), 1199882);
  EXPECT_EQ(numbers_in(*prepared("convnet_bn", kMnist)), 29034);
}

TEST(Models, NameTheirParametersAsTheirModelsInPython) {
  EXPECT_THAT(prepared("convnet", kMnist)->named_parameters().keys(),
              ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias",
                          "fc2.weight", "fc2.bias"));
  EXPECT_THAT(prepared("convnet_bn", kMnist)->named_parameters().keys(),
              ElementsAre("layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias", "layer2.0.weight",
                          "layer2.0.bias", "layer2.1.weight", "layer2.1.bias", "fc.weight", "fc.bias"));
}

TEST(Models, RefuseImagesThatTheirLayersCannotTake) {
  EXPECT_THAT(error_of_preparing("convnet", {.sample_shape = {1, 5, 28}, .classes = 2}), HasSubstr("at least 6 x 6"));
  EXPECT_THAT(error_of_preparing("convnet", {.sample_shape = {784}, .classes = 2}), HasSubstr("[784]"));
  EXPECT_THAT(error_of_preparing("convnet_bn", {.sample_shape = {1, 28, 3}, .classes = 2}),
              HasSubstr("at least 4 x 4"));
  EXPECT_EQ(error_of_preparing("convnet", {.sample_shape = {1, 6, 6}, .classes = 2}), "");
}

TEST(Mlp, TakesSamplesOfAnyShapeAndAnyNumberOfLayers) {
  const DataSpec flat{.sample_shape = {6}, .classes = 3};
  const auto model = prepared("mlp", flat, {{"layers", "3"}, {"hidden", "4"}});
  EXPECT_EQ(numbers_in(*model), 6 * 4 + 4 + 2 * (4 * 4 + 4) + 4 * 3 + 3);
  EXPECT_EQ(model->forward(torch::rand({2, 6})).sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(numbers_in(*prepared("mlp", flat, {{"layers", "0"}})), 6 * 3 + 3);
}

TEST(ConvNet, DropsOnlyInTraining) {
  const auto model = prepared("convnet", kMnist);
  const auto input = torch::rand({2, 1, 28, 28});
  EXPECT_FALSE(torch::equal(model->forward(input), model->forward(input)));
  const auto without = prepared("convnet", kMnist, {{"dropout", "0"}});
  model->eval();
  EXPECT_TRUE(torch::equal(model->forward(input), without->forward(input)));
  EXPECT_THROW(unprepared("convnet", {{"dropout", "1.5"}}), UserError);
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

}  // namespace
}  // namespace ddprun
