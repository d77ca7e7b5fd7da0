// SPDX-License-Identifier: MIT
// What `ddprun export` records of a model.
#include "model_under_test.h"
#include "step/traced_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <sstream>

namespace ddprun {
namespace {

// Has a child, tied weights, a frozen one and a buffer.
class Small : public Model {
 public:
  Small() {
    first = register_module("first", torch::nn::Linear(4, 4));
    tied = register_parameter("tied", first->weight);
    first->bias.set_requires_grad(false);
    factor = register_buffer("factor", at::full({1}, 3.0));
  }

  at::Tensor forward(const at::Tensor& input) override { return factor * at::linear(first(input).relu_(), tied); }

  torch::nn::Linear first{nullptr};
  at::Tensor tied, factor;
};

template <class Function>
class Calling final : public Model {
 public:
  explicit Calling(Function function) : function_(std::move(function)) {}
  at::Tensor forward(const at::Tensor& input) override { return function_(input); }

 private:
  Function function_;
};

const DataForm kFour{.spec = {.sample_shape = {4}, .classes = 4}, .bytes = {}};

std::map<std::string, at::Tensor> tensors_of(const torch::jit::Module& module) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& one : module.named_parameters()) tensors.emplace(one.name, one.value);
  for (const auto& one : module.named_buffers()) tensors.emplace(one.name, one.value);
  return tensors;
}

template <class Function>
std::string refusal(const Function& function, const TraceForm& form = {.data = kFour}) {
  Calling<Function> model(function);
  return error_of([&] { traced(model, form); });
}

TEST(Export, TensorsHaveTheModelsNamesAndAreTheModels) {
  const auto model = std::make_shared<Small>();
  const auto tensors = tensors_of(traced(*model, {.data = kFour}));
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_TRUE(tensors.at("first.weight").is_same(model->first->weight));
  EXPECT_TRUE(tensors.at("tied").is_same(model->first->weight));
  EXPECT_FALSE(tensors.at("first.bias").requires_grad());
  EXPECT_TRUE(tensors.at("factor").is_same(model->factor));
}

TEST(Export, AnyBatchGivesWhatTheModelGives) {
  const auto model = std::make_shared<Small>();
  auto script = traced(*model, {.data = kFour});
  for (const int64_t batch : {1, 7, 256}) {
    const auto input = at::randn({batch, 4});
    EXPECT_TRUE(at::equal(script.forward({input}).toTensor(), model->forward(input))) << batch;
  }
}

TEST(Export, TheWeightsAreReadWhenItRunsAndKeptInItsFile) {
  const auto model = std::make_shared<Small>();
  auto script = traced(*model, {.data = kFour});
  std::stringstream file;
  script.save(file);
  auto read = torch::jit::load(file);
  const auto input = at::randn({5, 4});
  const auto before = model->forward(input);
  const torch::NoGradGuard no_gradients;
  model->factor.mul_(2);
  EXPECT_TRUE(at::equal(script.forward({input}).toTensor(), model->forward(input)));
  EXPECT_TRUE(at::equal(read.forward({input}).toTensor(), before));
}

TEST(Export, RawTakesBytesAndGivesProbabilities) {
  DataForm form{.spec = {.sample_shape = {2, 3, 3}, .classes = 18}, .bytes = ByteRange{{-1, 0}, {1, 2}}};
  const auto flat = [](const at::Tensor& input) { return input.flatten(1); };
  const auto model = std::make_shared<Calling<decltype(flat)>>(flat);
  auto script = traced(*model, {.data = form, .raw = true});
  const auto bytes = at::randint(256, {4, 2, 3, 3}, at::kLong).to(at::kByte);
  const auto values = bytes.to(at::kFloat) / 127.5 + at::tensor({-1.0F, 0.0F}).view({1, 2, 1, 1});
  EXPECT_TRUE(at::allclose(script.forward({bytes}).toTensor(), at::softmax(values.flatten(1), 1)));
  form.spec.classes = 10;
  EXPECT_EQ(refusal(flat, {.data = form, .raw = true}),
            "--raw gives the probabilities of 10 classes, and its forward() gives [3, 18] for a batch of 3");
}

TEST(Export, AModelThatKeepsTheSizeOfTheBatchIsRefused) {
  const auto keeps = [](const at::Tensor& x) { return x.reshape({x.size(0), 2, 2}); };
  EXPECT_NE(refusal(keeps).find("keeps the size of the batch that it is recorded with"), std::string::npos);
  EXPECT_EQ(refusal([](const at::Tensor& x) { return x.reshape({-1, 2, 2}); }), "");
  const auto counts = [](const at::Tensor& x) { return at::arange(x.size(0)); };
  EXPECT_NE(refusal(counts).find("input.size(0)"), std::string::npos);
}

TEST(Export, AModelThatDrawsRandomNumbersInEvaluationIsRefused) {
  EXPECT_NE(refusal([](const at::Tensor& x) { return x + at::rand_like(x); }).find("random"), std::string::npos);
}

TEST(Export, AModelThatDependsOnMoreThanItsInputIsRefused) {
  const auto calls = std::make_shared<int>(0);  // the third one is recorded
  const auto alternates = [calls](const at::Tensor& x) { return ++*calls == 3 ? x : x + 1; };
  EXPECT_NE(refusal(alternates).find("depends on more than input and weights"), std::string::npos);
}

TEST(Export, AnErrorOfTheModelIsOneLine) {
  const auto text = refusal([](const at::Tensor& x) -> at::Tensor { return x.matmul(at::ones({9, 9})); });
  EXPECT_NE(text.find("its forward() fails: "), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

struct Exported {
  const char* name;
  DataSpec data;
  OptionTexts options = {};
};

class ExportOf : public testing::TestWithParam<Exported> {};

TEST_P(ExportOf, EveryPluginTakesAnyBatch) {
  const auto& [name, data, options] = GetParam();
  const auto model = prepared(name, data, options);
  const DataForm form{.spec = data, .input_type = data.sample_shape.size() == 1 ? at::kLong : at::kFloat, .bytes = {}};
  auto script = traced(*model, {.data = form});
  auto shape = data.sample_shape;
  shape.insert(shape.begin(), 5);
  const auto input = form.input_type == at::kLong ? at::randint(data.classes, shape, at::kLong) : at::randn(shape);
  const torch::NoGradGuard no_gradients;
  EXPECT_TRUE(at::allclose(script.forward({input}).toTensor(), model->forward(input), 1e-4, 1e-5));
  EXPECT_EQ(tensors_of(script).size(), model->named_parameters().size() + model->named_buffers().size());
}

const DataSpec kTextSpec{.sample_shape = {16}, .classes = 28};
INSTANTIATE_TEST_SUITE_P(Plugins, ExportOf,
                         testing::Values(Exported{"mlp", kMnist}, Exported{"convnet", kMnist},
                                         Exported{"convnet_bn", kMnist}, Exported{"keras_convnet", kMnist},
                                         Exported{"lenet", kMnist}, Exported{"gan", kMnist},
                                         Exported{"resnet", kCifar10}, Exported{"wide_resnet", kCifar10},
                                         Exported{"unet", kCifar10, {{"width", "8"}}},
                                         Exported{"transformer", kTextSpec}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ddprun
