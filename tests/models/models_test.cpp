// SPDX-License-Identifier: MIT
#include "models/model_under_test.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(Models, HaveAsManyParametersAsTheirModelsInPython) {
  EXPECT_EQ(numbers_in(*prepared("mlp", kMnist)), 784 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(numbers_in(*prepared("convnet", kMnist)), 1199882);
  EXPECT_EQ(numbers_in(*prepared("convnet_bn", kMnist)), 29034);
  EXPECT_EQ(numbers_in(*prepared("lenet", kMnist)), 431080);
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
  EXPECT_THAT(error_of_preparing("convnet", {.sample_shape = {28, 28}, .classes = 2}),
              HasSubstr("save pictures of one channel as [N, 1, 28, 28]"));
  EXPECT_THAT(error_of_preparing("convnet_bn", {.sample_shape = {1, 28, 3}, .classes = 2}),
              HasSubstr("at least 4 x 4"));
  EXPECT_THAT(error_of_preparing("lenet", {.sample_shape = {1, 15, 28}, .classes = 2}), HasSubstr("at least 16 x 16"));
  EXPECT_EQ(error_of_preparing("lenet", {.sample_shape = {1, 16, 16}, .classes = 2}), "");
  EXPECT_EQ(error_of_preparing("convnet", {.sample_shape = {1, 6, 6}, .classes = 2}), "");
}

TEST(Mlp, TakesSamplesOfAnyShapeAndAnyNumberOfLayers) {
  const DataSpec flat{.sample_shape = {6}, .classes = 3};
  const auto model = prepared("mlp", flat, {{"layers", "3"}, {"hidden", "4"}});
  EXPECT_EQ(numbers_in(*model), 6 * 4 + 4 + 2 * (4 * 4 + 4) + 4 * 3 + 3);
  EXPECT_EQ(model->forward(torch::rand({2, 6})).sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(numbers_in(*prepared("mlp", flat, {{"layers", "0"}})), 6 * 3 + 3);
}

TEST(Mlp, PredictsAsManyValuesAsAskedWhereTheDataHaveNoClasses) {
  const DataSpec values{.sample_shape = {6}};
  EXPECT_EQ(prepared("mlp", values, {{"outputs", "2"}})->forward(torch::rand({4, 6})).sizes(), at::IntArrayRef({4, 2}));
  EXPECT_THAT(error_of_preparing("mlp", values), HasSubstr("model.outputs"));
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
