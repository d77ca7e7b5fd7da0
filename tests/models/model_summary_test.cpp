// SPDX-License-Identifier: MIT
#include "worker/model_summary.h"

#include "models/model_under_test.h"
#include "support/toy.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <map>
#include <optional>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

std::vector<LayerSummary> layers(const std::string& plugin, const OptionTexts& options = {}) {
  const auto model = prepared(plugin, kMnist, options);
  model->eval();
  return layers_of(*model, model->forward(torch::zeros({2, 1, 28, 28})), 2);
}

TEST(ModelSummary, LayersHaveTheShapesOfTheirOutputsWithoutTheSamples) {
  EXPECT_THAT(layers("convnet"),
              ElementsAre(FieldsAre("conv1", "Conv2d", "32 x 26 x 26", 320),
                          FieldsAre("conv2", "Conv2d", "64 x 24 x 24", 18496),
                          FieldsAre("fc1", "Linear", "128", 1179776), FieldsAre("fc2", "Linear", "10", 1290)));
}

TEST(ModelSummary, NormalisationsAndNestedLayersAreFound) {
  for (const auto& layer : layers("resnet", {{"depth", "18"}})) {
    EXPECT_FALSE(layer.shape.empty()) << layer.name;
    EXPECT_GT(layer.parameters, 0) << layer.name;
  }
}

TEST(ModelSummary, LayersOfTextsHaveTheSymbolsOfOneSample) {
  const auto model = prepared("transformer", {.sample_shape = {6}, .classes = 5}, {{"layers", "1"}});
  std::map<std::string, std::string> shapes;
  for (const auto& layer : layers_of(*model, model->forward(torch::zeros({2, 6}, torch::kLong)), 2))
    shapes[layer.name] = layer.shape;
  EXPECT_EQ(shapes["blocks.0.attention"], "6 x 192");
  EXPECT_EQ(shapes["blocks.0.output"], "6 x 64");
  EXPECT_EQ(shapes["symbols"], "6 x 5");  // the matrix that reads symbols predicts them too
}

TEST(ModelSummary, WithoutAnOutputThereAreNoShapes) {
  for (const auto& layer : layers_of(*prepared("mlp", kMnist, {}))) EXPECT_EQ(layer.shape, "") << layer.name;
}

// For shapes that never come again, cuDNN would try all of its algorithms.
TEST(ModelSummary, TriesNoAlgorithmsForItsTwoSamples) {
  class Seeing final : public testing::ToyModel {
   public:
    at::Tensor forward(const at::Tensor& input) override {
      tried = at::globalContext().benchmarkCuDNN();
      return ToyModel::forward(input);
    }
    std::optional<bool> tried;
  };
  const auto model = std::make_shared<Seeing>();
  const testing::ToyDataset dataset(4, 0);
  model->prepare(dataset.spec());
  for (const bool benchmark : {true, false}) {
    at::globalContext().setBenchmarkCuDNN(benchmark);
    const auto layers =
        layers_of({.model = *model, .dataset = dataset, .precision = {}, .device = at::kCPU, .backend = nullptr});
    EXPECT_EQ(layers.at(0).shape, "16");
    EXPECT_EQ(model->tried, false);
    EXPECT_EQ(at::globalContext().benchmarkCuDNN(), benchmark);
  }
}

class Tied final : public Model {
 public:
  Tied() {
    inner_ = register_module("inner", torch::nn::Linear(torch::nn::LinearOptions(3, 3).bias(false)));
    register_module("again", inner_);
    frozen_ = register_module("frozen", torch::nn::Linear(3, 3));
    for (auto& parameter : frozen_->parameters()) parameter.requires_grad_(false);
  }
  at::Tensor forward(const at::Tensor& input) override { return frozen_(inner_(input)); }

 private:
  torch::nn::Linear inner_{nullptr}, frozen_{nullptr};
};

TEST(ModelSummary, ATiedLayerCountsOnceAndAFrozenOneNotAtAll) {
  const auto model = std::make_shared<Tied>();
  int64_t sum = 0;
  for (const auto& layer : layers_of(*model, model->forward(torch::ones({2, 3})), 2)) sum += layer.parameters;
  EXPECT_EQ(sum, 9);
}

}  // namespace
}  // namespace ddprun
