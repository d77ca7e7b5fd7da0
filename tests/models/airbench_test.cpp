// SPDX-License-Identifier: MIT
#include "models/model_under_test.h"

#include <ddprun/testing.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <numeric>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace F = torch::nn::functional;

const DataSpec kSmall{.sample_shape = {3, 11, 12}, .classes = 4};
// Wider than the 24 filters before them: what has no more outputs than inputs begins as an identity alone.
const OptionTexts kNarrow{{"widths", "[30, 34, 40]"}};

// Neighbouring pixels and channels have much in common, as in photographs. The images from `odd_from` on are others.
class Photographs final : public Dataset {
 public:
  explicit Photographs(int64_t count, int64_t odd_from = 1 << 20) : count_(count) {
    torch::manual_seed(5);
    const auto noise = torch::randn({kMost, 1, 9, 10}) + 0.3 * torch::randn({kMost, 3, 9, 10});
    images_ = (torch::avg_pool2d(noise, 3, 1, 1) + 0.7).slice(0, 0, count);
    if (odd_from < count) images_.slice(0, odd_from).mul_(20);
  }

  void start() override {}
  DataSpec spec() const override { return {.sample_shape = {3, 9, 10}, .classes = 10}; }
  int64_t size(Split split) const override { return split == Split::kTrain ? count_ : 0; }

  Batch get(Split, std::span<const int64_t> indices) const override {
    const auto index = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    return {.input = images_.index_select(0, index), .target = torch::zeros_like(index), .index = index};
  }

  const at::Tensor& images() const { return images_; }

 private:
  static constexpr int64_t kMost = 300;

  int64_t count_;
  at::Tensor images_;
};

std::shared_ptr<Model> whitened(const Photographs& data, OptionTexts options = {}) {
  options.insert(options.end(), kNarrow.begin(), kNarrow.end());
  auto model = prepared("airbench", data.spec(), options);
  model->initialize(data);
  return model;
}

at::Tensor filters_of(const Model& model) { return model.named_parameters()["whiten.weight"].detach(); }

// Returns the covariance of the filters' outputs at all places of all images, [filters, filters].
at::Tensor covariance(const at::Tensor& filters, const at::Tensor& images) {
  return torch::conv2d(images.to(at::kDouble), filters.to(at::kDouble)).transpose(0, 1).flatten(1).cov(0);
}

std::shared_ptr<Model> evaluated(const DataSpec& data, const std::string& tta) {
  auto model = prepared("airbench", data, {{"widths", "[30, 34, 40]"}, {"tta", tta}});
  const torch::NoGradGuard no_gradients;
  for (auto& buffer : model->buffers()) {
    if (buffer.is_floating_point()) buffer.uniform_(0.5, 1);  // running statistics as of a trained one
  }
  model->eval();
  return model;
}

TEST(Airbench, HasAsManyParametersAsPublished) {
  const auto model = prepared("airbench", kCifar10);
  int64_t trained = 0;
  for (const auto& parameter : model->parameters()) trained += parameter.requires_grad() ? parameter.numel() : 0;
  const int64_t filters = 9 * (24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256), biases = 24 + 2 * (64 + 256 + 256);
  EXPECT_EQ(trained, filters + biases + 256 * 10);
  EXPECT_EQ(trained, 1971352);  // "1.97 M"
  EXPECT_EQ(numbers_in(*model), trained + 24 * 12);
  EXPECT_FALSE(model->named_parameters()["whiten.weight"].requires_grad());
}

TEST(Airbench, GivesLogitsForImagesOfAnySize) {
  for (const auto& data : {kMnist, kColour, kSmall}) {
    const auto model = prepared("airbench", data, kNarrow);
    auto shape = data.sample_shape;
    shape.insert(shape.begin(), 5);
    EXPECT_EQ(model->forward(torch::rand(shape)).sizes(), at::IntArrayRef({5, data.classes}));
    model->eval();
    EXPECT_EQ(model->forward(torch::rand(shape)).sizes(), at::IntArrayRef({5, data.classes}));
  }
  EXPECT_THAT(error_of_preparing("airbench", {.sample_shape = {3, 8, 9}, .classes = 2}), HasSubstr("at least 9 x 9"));
  EXPECT_THAT(error_of_preparing("airbench", {.sample_shape = {3, 9, 9}}), HasSubstr("no classes"));
}

TEST(Airbench, KeepsWhatAModelPromises) {
  EXPECT_THAT(check::all({.make = check::model_plugin(AIRBENCH_PLUGIN, {{"widths", {26, 27, 28}}}),
                          .data = {.sample_shape = {3, 9, 9}, .classes = 4}}),
              IsEmpty());
}

TEST(Airbench, TellsOfAWrongNumberOfBlocks) {
  EXPECT_THAT(check::option_problems(AIRBENCH_PLUGIN, {{"widths", {8, 6}}}), HasSubstr("expected three numbers"));
}

TEST(AirbenchWhitening, MakesThePatchesUncorrelated) {
  const Photographs data(300);
  const auto filters = filters_of(*whitened(data, {{"whitening_eps", "1e-9"}}));
  ASSERT_EQ(filters.sizes(), at::IntArrayRef({24, 3, 2, 2}));
  EXPECT_TRUE(covariance(filters.slice(0, 0, 12), data.images()).allclose(torch::eye(12, at::kDouble), 0, 1e-3));
  EXPECT_TRUE(filters.slice(0, 12).equal(-filters.slice(0, 0, 12)));
  const auto pixels = torch::eye(12).view({12, 3, 2, 2});
  EXPECT_GT(covariance(pixels, data.images()).fill_diagonal_(0).abs().max().item<double>(), 0.05);  // before
}

TEST(AirbenchWhitening, LeavesSmallVariancesSmall) {
  constexpr double kEps = 0.01;
  const Photographs data(300);
  const auto found =
      covariance(filters_of(*whitened(data, {{"whitening_eps", "0.01"}})).slice(0, 0, 12), data.images());
  const auto variances = torch::linalg_eigvalsh(covariance(torch::eye(12).view({12, 3, 2, 2}), data.images()));
  EXPECT_LT(variances.min().item<double>(), kEps);
  EXPECT_TRUE(found.allclose((variances / (variances + kEps)).diag(), 0, 1e-4));
}

TEST(AirbenchWhitening, LooksAtTheFirstImagesAlone) {
  const Photographs few(25), more(40, /*odd_from=*/25);
  const auto expected = filters_of(*whitened(few));
  EXPECT_TRUE(filters_of(*whitened(more, {{"whitening_images", "25"}})).equal(expected));
  EXPECT_FALSE(filters_of(*whitened(more)).allclose(expected, 0.1, 0.1));
}

TEST(AirbenchWhitening, WithoutDataPassesEachPixelOn) {
  const auto filters = filters_of(*prepared("airbench", kSmall, kNarrow));
  const auto flat = filters.flatten(1);
  EXPECT_TRUE(flat.slice(0, 0, 12).equal(torch::eye(12)));
  EXPECT_TRUE(flat.slice(0, 12).equal(-torch::eye(12)));
}

TEST(AirbenchWhitening, IsNotTrained) {
  const Photographs data(30);
  const auto model = whitened(data);
  const auto before = filters_of(*model).clone();
  F::cross_entropy(model->forward(data.images()), torch::zeros({30}, at::kLong)).backward();
  EXPECT_FALSE(model->named_parameters()["whiten.weight"].grad().defined());
  EXPECT_TRUE(model->named_parameters()["whiten.bias"].grad().abs().gt(0).all().item<bool>());
  EXPECT_TRUE(filters_of(*model).equal(before));
}

TEST(Airbench, BeginsByPassingItsInputsOn) {
  const auto model = prepared("airbench", kCifar10);
  const auto p = model->named_parameters();
  for (const std::string name : {"block1.conv1", "block1.conv2", "block2.conv1", "block3.conv2"}) {
    const auto filters = p[name + ".weight"];
    const auto inputs = filters.size(1);
    const auto x = torch::randn({2, inputs, 7, 7});
    const auto y = torch::conv2d(x, filters, {}, 1, 1);
    EXPECT_TRUE(y.slice(1, 0, inputs).allclose(x, 1e-5, 1e-5)) << name;
    if (filters.size(0) > inputs) {
      EXPECT_GT(y.slice(1, inputs).std().item<double>(), 0.1) << name;
    }
  }
  EXPECT_NEAR(p["head.weight"].std().item<double>(), 1, 1e-4);
}

// The network written down again, for training.
at::Tensor textbook(Model& model, at::Tensor x) {
  const auto p = model.named_parameters();
  const auto normalized = [&](const at::Tensor& input, const std::string& name) {
    const auto mean = input.mean({0, 2, 3}, true), variance = (input - mean).square().mean({0, 2, 3}, true);
    return torch::gelu((input - mean) / (variance + 1e-12).sqrt() + p[name + ".bias"].view({1, -1, 1, 1}));
  };
  x = torch::gelu(torch::conv2d(x, p["whiten.weight"], p["whiten.bias"]));
  for (const std::string block : {"block1", "block2", "block3"}) {
    x = normalized(torch::max_pool2d(torch::conv2d(x, p[block + ".conv1.weight"], {}, 1, 1), 2), block + ".norm1");
    x = normalized(torch::conv2d(x, p[block + ".conv2.weight"], {}, 1, 1), block + ".norm2");
  }
  return torch::linear(x.amax({2, 3}), p["head.weight"]) / x.size(1);
}

TEST(Airbench, IsTheNetworkOfThePaper) {
  const auto model = prepared("airbench", kCifar10, {{"widths", "[12, 40, 16]"}});
  const torch::NoGradGuard no_gradients;
  for (auto& parameter : model->parameters()) {
    if (parameter.dim() == 1) parameter.uniform_(-0.5, 0.5);
  }
  const auto input = torch::randn({6, 3, 32, 32});
  EXPECT_TRUE(model->forward(input).allclose(textbook(*model, input), 1e-4, 1e-5));
  const auto mean = model->named_buffers()["block1.norm1.running_mean"].clone();
  const auto filters = model->named_parameters()["block1.conv1.weight"];
  const auto whiten = model->named_parameters();
  const auto x = torch::gelu(torch::conv2d(input, whiten["whiten.weight"], whiten["whiten.bias"]));
  const auto batch_mean = torch::max_pool2d(torch::conv2d(x, filters, {}, 1, 1), 2).mean({0, 2, 3});
  EXPECT_TRUE(mean.allclose(0.4 * batch_mean, 1e-4, 1e-6));
}

TEST(AirbenchEvaluation, IsTheSameForAnImageAndItsMirrorImage) {
  const auto model = evaluated(kSmall, "mirror");
  const auto input = torch::randn({4, 3, 11, 12});
  EXPECT_TRUE(model->forward(input).equal(model->forward(input.flip(3))));
  const auto plain = evaluated(kSmall, "none");
  EXPECT_FALSE(plain->forward(input).allclose(plain->forward(input.flip(3)), 1e-3, 1e-3));
}

TEST(AirbenchEvaluation, AveragesOverMirrorImagesAndMovedOnes) {
  const auto once = evaluated(kSmall, "none"), mirror = evaluated(kSmall, "mirror"),
             translate = evaluated(kSmall, "translate");
  for (const auto& model : {mirror, translate}) {
    for (const auto& entry : once->named_buffers()) model->named_buffers()[entry.key()].copy_(entry.value());
  }
  const auto input = torch::randn({4, 3, 11, 12});
  const auto both = [&](const at::Tensor& x) { return (once->forward(x) + once->forward(x.flip(3))) / 2; };
  EXPECT_TRUE(mirror->forward(input).allclose(both(input), 1e-5, 1e-6));
  // The pixel (y, x) of the moved ones is (y - 1, x - 1) or (y + 1, x + 1) of the image, mirrored at its edges.
  const auto at = [](int64_t size, int64_t by) {
    auto from = torch::arange(size) + by;
    return torch::where(from.lt(0), -from, torch::where(from.ge(size), 2 * size - 2 - from, from));
  };
  const auto moved = [&](int64_t by) { return input.index_select(2, at(11, by)).index_select(3, at(12, by)); };
  const auto expected = both(input) / 2 + both(moved(-1)) / 4 + both(moved(1)) / 4;
  EXPECT_TRUE(translate->forward(input).allclose(expected, 1e-5, 1e-6));
  EXPECT_FALSE(translate->forward(input).allclose(both(input), 1e-3, 1e-4));
}

TEST(AirbenchEvaluation, AloneLooksSeveralTimes) {
  const auto with = prepared("airbench", kSmall, kNarrow);
  const auto without = prepared("airbench", kSmall, {{"widths", "[30, 34, 40]"}, {"tta", "none"}});
  const auto input = torch::randn({4, 3, 11, 12});
  EXPECT_TRUE(with->forward(input).equal(without->forward(input)));
}

TEST(Airbench, GivesTheSameWithChannelsLast) {
  for (const bool training : {true, false}) {
    const auto one = prepared("airbench", kSmall, kNarrow), other = prepared("airbench", kSmall, kNarrow);
    for (auto& parameter : other->parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
    const auto input = torch::randn({4, 3, 11, 12});
    one->train(training);
    other->train(training);
    const auto logits = other->forward(input.contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(one->forward(input).allclose(logits, 1e-4, 1e-5)) << training;
  }
}

TEST(Airbench, ComputesInBfloat16Too) {
  const auto model = prepared("airbench", kSmall, kNarrow);
  const auto input = torch::randn({4, 3, 11, 12});
  const auto expected = model->forward(input);
  model->to(at::kBFloat16);
  const auto logits = model->forward(input.to(at::kBFloat16));
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(logits.to(at::kFloat).allclose(expected, 0.1, 0.1));
  model->eval();
  EXPECT_TRUE(model->forward(input.to(at::kBFloat16)).isfinite().all().item<bool>());
}

}  // namespace
}  // namespace ddprun
