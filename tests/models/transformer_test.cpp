// SPDX-License-Identifier: MIT
#include "models/model_under_test.h"

#include <ddprun/testing.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const DataSpec kText{.sample_shape = {6}, .classes = 5};

// Texts where the same symbol does not always follow the same.
Batch texts(int64_t count) {
  torch::manual_seed(9);
  const auto symbols = torch::randint(kText.classes, {count, kText.sample_shape[0] + 1}, torch::kLong);
  return {.input = symbols.slice(1, 0, -1).contiguous(),
          .target = symbols.slice(1, 1).contiguous(),
          .index = torch::arange(count)};
}

std::shared_ptr<Model> small(const OptionTexts& options = {{"width", "16"}, {"heads", "2"}}) {
  auto model = prepared("transformer", kText, options);
  model->eval();
  return model;
}

std::string error_of_step(const Batch& batch) {
  return error_of([&] { small()->step(batch, NoObjective()); });
}

TEST(Transformer, KeepsWhatAModelPromises) {
  const auto objective = std::make_shared<NoObjective>();
  const check::Settings settings{{"width", 32}, {"heads", 4}};
  EXPECT_THAT(check::all({.make = check::model_plugin(TRANSFORMER_PLUGIN, settings),
                          .data = kText,
                          .batch = texts(8),
                          .objective = objective}),
              IsEmpty());
}

TEST(Transformer, KeepsItWithDropoutToo) {
  const check::ModelTest test{.make = check::model_plugin(TRANSFORMER_PLUGIN, {{"dropout", 0.2}}),
                              .data = kText,
                              .batch = texts(8),
                              .objective = std::make_shared<NoObjective>()};
  EXPECT_EQ(check::evaluation(test), "");
  EXPECT_EQ(check::gradients(test, 3), "");
  EXPECT_EQ(check::ranks_agree(test), "");
}

// Equal within rounding: attention adds in another order.
TEST(Transformer, PackedDocumentsArePredictedAsTheyAreAlone) {
  const auto model = small({{"width", "16"}, {"heads", "2"}, {"layers", "3"}});
  auto batch = texts(2);
  const auto alone = at::cat({model->forward(batch.input.slice(1, 0, 2)), model->forward(batch.input.slice(1, 2))}, 1);
  const auto rows = [](std::vector<int64_t> row) { return torch::tensor(row, torch::kLong).repeat({2, 1}); };
  EXPECT_FALSE(at::allclose(model->predict(batch), alone, 1e-3, 1e-3));
  batch.extras = {{"document_ids", rows({0, 0, 1, 1, 1, 1})}, {"position_ids", rows({0, 1, 0, 1, 2, 3})}};
  EXPECT_TRUE(at::allclose(model->predict(batch), alone, 1e-6, 1e-6));
  batch.extras["document_ids"] = rows({0, 0, 0, 0, 0, 0});
  batch.extras["position_ids"] = rows({0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(at::allclose(model->predict(batch), model->forward(batch.input), 1e-6, 1e-6));
}

TEST(Transformer, SeesNoLaterSymbol) {
  const auto model = small();
  const auto input = texts(3).input;
  const auto before = model->forward(input);
  for (int64_t at = 0; at < input.size(1); ++at) {
    auto changed = input.clone();
    changed.select(1, at).add_(1).remainder_(kText.classes);
    const auto after = model->forward(changed);
    EXPECT_TRUE(torch::allclose(after.slice(1, 0, at), before.slice(1, 0, at), 1e-5, 1e-7)) << at;
    for (int64_t later = at; later < input.size(1); ++later)
      EXPECT_FALSE(torch::allclose(after.select(1, later), before.select(1, later), 1e-5, 1e-7)) << at << " " << later;
  }
}

TEST(Transformer, SaysThePlaceOfASymbolFromAnother) {
  const auto logits = small()->forward(torch::zeros({1, 6}, torch::kLong));
  EXPECT_FALSE(torch::allclose(logits[0][1], logits[0][5], 1e-4, 1e-6));
}

TEST(Transformer, MeasuresEverySymbol) {
  const auto model = small();
  const auto batch = texts(4);
  const auto step = model->step(batch, NoObjective());
  const auto logits = model->forward(batch.input);
  const auto chances = torch::log_softmax(logits, 2).gather(2, batch.target.unsqueeze(2));
  EXPECT_NEAR(step.loss.item<double>(), -chances.mean().item<double>(), 1e-5);
  ASSERT_EQ(step.metrics.size(), 2U);
  const auto &perplexity = step.metrics[0], &accuracy = step.metrics[1];
  EXPECT_EQ(perplexity.name, "perplexity");
  EXPECT_TRUE(perplexity.exponential && !accuracy.exponential);
  EXPECT_EQ(perplexity.counted.item<int64_t>(), 4 * 6);
  EXPECT_NEAR(perplexity.sum.item<double>(), -chances.sum().item<double>(), 1e-4);
  EXPECT_EQ(accuracy.counted.item<int64_t>(), 4 * 6);
  EXPECT_EQ(accuracy.sum.item<int64_t>(), logits.argmax(2).eq(batch.target).sum().item<int64_t>());
  EXPECT_FALSE(perplexity.sum.requires_grad());
}

TEST(Transformer, BeginsWithoutAPreference) {
  EXPECT_NEAR(small()->step(texts(20), NoObjective()).loss.item<double>(), std::log(5), 0.05);
}

TEST(Transformer, RefusesWhatIsNoText) {
  const auto batch = texts(2);
  EXPECT_THAT(error_of_step({.input = torch::rand({2, 6}), .target = batch.target, .index = batch.index}),
              HasSubstr("Float samples of shape [6]"));
  EXPECT_THAT(error_of_step({.input = batch.input, .target = torch::zeros({2}, torch::kLong), .index = batch.index}),
              HasSubstr("Long targets of shape [2] for samples of shape [2, 6]"));
  EXPECT_THAT(
      error_of_step({.input = torch::zeros({1, 7}, torch::kLong), .target = torch::zeros({1, 7}, torch::kLong)}),
      HasSubstr("with T up to 6"));
}

TEST(Transformer, LearnsWhatOnlyAttentionCanSay) {
  // The second half of each text repeats the first.
  torch::manual_seed(4);
  const auto half = torch::randint(kText.classes, {64, 4}, torch::kLong);
  const auto text = torch::cat({half, half.slice(1, 0, 3)}, 1);
  const Batch batch{.input = text.slice(1, 0, -1).contiguous(), .target = text.slice(1, 1).contiguous()};
  const auto model = prepared("transformer", kText, {{"width", "32"}});
  torch::optim::Adam adam(model->parameters(), 0.01);
  for (int step = 0; step < 100; ++step) {
    adam.zero_grad();
    model->step(batch, NoObjective()).loss.backward();
    adam.step();
  }
  model->eval();
  const auto fresh = torch::randint(kText.classes, {64, 4}, torch::kLong);
  const auto whole = torch::cat({fresh, fresh.slice(1, 0, 2)}, 1);
  const auto repeated = model->forward(whole).slice(1, 3, 5).argmax(2);
  EXPECT_GT(repeated.eq(fresh.slice(1, 0, 2)).to(torch::kFloat).mean().item<double>(), 0.9);
}

}  // namespace
}  // namespace ddprun
