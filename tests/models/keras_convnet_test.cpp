// SPDX-License-Identifier: MIT
#include "models/model_under_test.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace F = torch::nn::functional;

TEST(KerasConvNet, HasAsManyParametersAsTheGuidesNetwork) {
  const auto model = prepared("keras_convnet", kMnist);
  // Counts the parameters of Keras' layers: the kernels, a shift for each normalised channel, biases of large_k and the
  // dense layers.
  EXPECT_EQ(numbers_in(*model),
            (9 * 12 + 12) + (12 * 24 * 36 + 24) + (24 * 32 * 36 + 32 + 32) + (32 * 256 + 256) + (256 * 10 + 10));
  EXPECT_THAT(model->named_parameters().keys(),
              ElementsAre("conv2d.weight", "batch_normalization.bias", "conv2d_1.weight", "batch_normalization_1.bias",
                          "large_k.weight", "large_k.bias", "batch_normalization_2.bias", "dense.weight", "dense.bias",
                          "dense_1.weight", "dense_1.bias"));
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
at::Tensor textbook(Model& model, at::Tensor x, std::pair<int, int> rows, std::pair<int, int> columns) {
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

TEST(KerasConvNet, PadsAsTensorFlowDoes) {
  const auto square = prepared("keras_convnet", kMnist, {{"dropout", "0"}});
  const auto input = torch::rand({3, 1, 28, 28});  // 12 x 12 before large_k: 6 outputs of 6 need 16
  EXPECT_TRUE(torch::allclose(square->forward(input), textbook(*square, input, {2, 2}, {2, 2}), 1e-5, 1e-6));
  const auto uneven = prepared("keras_convnet", {.sample_shape = {1, 30, 21}, .classes = 10}, {{"dropout", "0"}});
  const auto other = torch::rand({3, 1, 30, 21});  // 13 x 8: 7 outputs need 18, 4 need 12
  EXPECT_TRUE(torch::allclose(uneven->forward(other), textbook(*uneven, other, {2, 3}, {2, 2}), 1e-5, 1e-6));
}

TEST(KerasConvNet, ForgetsRunningStatisticsAsSlowlyAsKeras) {
  const auto model = prepared("keras_convnet", kMnist);
  model->forward(torch::rand({3, 1, 28, 28}));
  const auto variance = model->named_buffers()["batch_normalization.running_var"];
  EXPECT_TRUE(variance.ge(0.99).logical_and(variance.lt(1.01)).all().item<bool>());
}

TEST(KerasConvNet, RefusesImagesThatItsLargeKernelsCannotTake) {
  EXPECT_THAT(error_of_preparing("keras_convnet", {.sample_shape = {1, 5, 28}, .classes = 2}),
              HasSubstr("at least 6 x 6"));
  EXPECT_EQ(
      prepared("keras_convnet", {.sample_shape = {1, 6, 6}, .classes = 2})->forward(torch::rand({2, 1, 6, 6})).sizes(),
      at::IntArrayRef({2, 2}));
}

}  // namespace
}  // namespace ddprun
