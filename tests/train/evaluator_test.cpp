// SPDX-License-Identifier: MIT
#include "train/evaluator.h"

#include "metrics/objective.h"
#include "metrics/predictions.h"
#include "support/error_of.h"
#include "support/ranks.h"
#include "support/toy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

namespace ddprun {
namespace {

// The toy model with the weights of one seed.
std::shared_ptr<Model> toy_model() {
  static std::mutex seeding;  // the default generator is the process's
  std::scoped_lock lock(seeding);
  torch::manual_seed(3);
  const auto model = std::make_shared<testing::ToyModel>();
  model->prepare({.sample_shape = {8}, .classes = 3});
  return model;
}

std::unique_ptr<Objective> counting_objective() {
  auto metrics = Value::list();
  for (const auto* name : {"accuracy", "confusion", "f1", "mcc", "auroc", "average_precision", "recall_per_class"})
    metrics.items().push_back(Value::scalar(name));
  auto values = Value::map();
  values.set("metrics", std::move(metrics));
  Options options(values, "objective");
  return make_objective("cross_entropy", options);
}

std::vector<Evaluation> evaluate_on(int64_t ranks, int64_t samples, int64_t batch) {
  std::vector<Evaluation> found(static_cast<size_t>(ranks));
  testing::on_ranks(ranks, [&](Communicator& communicator) {
    const auto objective = counting_objective();
    Evaluator evaluator(
        {toy_model(), std::make_shared<testing::ToyDataset>(9, samples), *objective, communicator, {}, c10::kCPU},
        {.eval_batch = batch});
    found[static_cast<size_t>(communicator.world().rank)] = *evaluator.run(Split::kVal, {});
  });
  return found;
}

TEST(Evaluator, EverySampleCountsOnceAndMetricsOfCountsAreTheSameBitsAtAnyNumberOfRanks) {
  const auto alone = evaluate_on(1, 41, 20).front();
  const auto expected = alone.values("val");
  ASSERT_TRUE(alone.confusion.defined());
  EXPECT_EQ(alone.confusion.sum().item<int64_t>(), 41);
  EXPECT_EQ(alone.confusion.trace().item<double>(), alone.totals.at(1).sum);  // the diagonal is what accuracy counts
  ASSERT_EQ(expected.size(), 2U + 4 + 3);
  EXPECT_EQ(expected[2].first, "val/f1");
  EXPECT_EQ(expected.back().first, "val/recall/2");
  for (const int64_t ranks : {2, 3, 4}) {  // the fourth has no batch
    for (const auto& mine : evaluate_on(ranks, 41, 20)) {
      ASSERT_TRUE(mine.confusion.defined()) << ranks;
      EXPECT_TRUE(at::equal(mine.confusion, alone.confusion)) << ranks;
      const auto values = mine.values("val");
      EXPECT_TRUE(std::equal(values.begin() + 1, values.end(), expected.begin() + 1, expected.end())) << ranks;
    }
  }
}

// Images of 2 x 4 pixels in classes; some pixels have none.
class Pixels final : public testing::ToyDataset {
 public:
  using ToyDataset::ToyDataset;

  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = ToyDataset::get(split, indices);
    const auto values = batch.input.view({-1, 2, 4});
    batch.target = at::where(values > 1, -100, values.lt(0).to(at::kLong) + values.lt(-1).to(at::kLong));
    return batch;
  }
};

class OfPixels final : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    const auto values = input.view({-1, 2, 4});
    return at::stack({values, values.square(), -values}, 1);
  }
};

TEST(Evaluator, PixelsCountAtAnyNumberOfRanks) {
  std::vector<NamedValues> found;
  for (const int64_t ranks : {1, 2, 3}) {
    testing::on_ranks(ranks, [&](Communicator& communicator) {
      const auto objective = counting_objective();
      Evaluator evaluator(
          {std::make_shared<OfPixels>(), std::make_shared<Pixels>(9, 41), *objective, communicator, {}, c10::kCPU},
          {.eval_batch = 6});
      const auto evaluation = *evaluator.run(Split::kVal, {});
      if (communicator.world().rank != 0) return;
      EXPECT_EQ(evaluation.totals.at(1).count, evaluation.confusion.sum().item<int64_t>());
      EXPECT_LT(evaluation.totals.at(1).count, 41 * 8) << "there is nothing to ignore";
      EXPECT_EQ(evaluation.totals[1].sum, evaluation.confusion.trace().item<double>());
      found.push_back(evaluation.values());
    });
    EXPECT_TRUE(std::equal(found[0].begin() + 1, found[0].end(), found.back().begin() + 1, found.back().end()));
    EXPECT_NEAR(found[0][0].second, found.back()[0].second, 1e-6);
  }
}

// Names a metric of its own after the counts of nothing.
class Naming final : public testing::MeanCrossEntropy {
 public:
  explicit Naming(std::string name) : name_(std::move(name)) {}
  std::vector<MetricCounts> counts(const at::Tensor&, const at::Tensor& target) const override {
    return {{.name = "samples", .counts = at::full({}, target.size(0), at::kLong)}};
  }
  NamedValues summary(const std::vector<MetricCounts>& totals) const override {
    return {{name_, totals.at(0).counts.item<double>()}};
  }

 private:
  std::string name_;
};

TEST(Evaluator, TheNameOfAMetricOfCountsMustBeNew) {
  const auto evaluation = [](const std::string& name) {
    return evaluation_of({{.name = "accuracy", .sum = 1, .count = 1}},
                         {{.name = "samples", .counts = at::full({}, 7, at::kLong)}}, Naming(name));
  };
  EXPECT_EQ(evaluation("share").values("val").back(), (std::pair<std::string, double>("val/share", 7)));
  EXPECT_EQ(error_of([&] { evaluation("accuracy"); }),
            "objective: summary() gives a metric accuracy, which there is already");
  EXPECT_TRUE(error_of([&] {
                evaluation("step");
              }).starts_with("objective: a metric of summary() is called step, which is reserved"));
}

TEST(Evaluator, WithoutTheMetricThereIsNoConfusion) {
  testing::on_ranks(2, [&](Communicator& communicator) {
    const testing::MeanCrossEntropy objective;
    Evaluator evaluator(
        {toy_model(), std::make_shared<testing::ToyDataset>(9, 20), objective, communicator, {}, c10::kCPU},
        {.eval_batch = 8});
    EXPECT_FALSE(evaluator.run(Split::kVal, {})->confusion.defined());
  });
}

TEST(Evaluator, ASampleHasWhatTheModelSaysOfEachInput) {
  testing::on_ranks(1, [&](Communicator& communicator) {
    const auto objective = counting_objective();
    const auto model = toy_model();
    const auto dataset = std::make_shared<testing::ToyDataset>(9, 20);
    model->train();
    const auto table = *Evaluator({model, dataset, *objective, communicator, {}, c10::kCPU}, {.eval_batch = 8})
                            .sample(Split::kVal, {.batches = 9, .images_per_batch = 100});
    EXPECT_TRUE(model->is_training());
    ASSERT_EQ(table.rows.size(), 20U);
    const auto row = table.rows.at(17);
    const auto batch = dataset->get(Split::kVal, std::vector<int64_t>{17});
    const auto scores = at::softmax(model->forward(batch.input), 1)[0];
    EXPECT_EQ(row.id, 17);
    EXPECT_EQ(row.truth, batch.target.item<int64_t>());
    EXPECT_EQ(row.guess, scores.argmax().item<int64_t>());
    ASSERT_EQ(row.scores.size(), 3U);
    EXPECT_NEAR(row.scores[1], scores[1].item<double>(), 1e-6);
    EXPECT_TRUE(row.image.bytes.empty());  // eight numbers are no image
  });
}

TEST(Evaluator, SamplesAreSpreadOverTheSplit) {
  testing::on_ranks(1, [&](Communicator& communicator) {
    const auto objective = counting_objective();
    Evaluator evaluator(
        {toy_model(), std::make_shared<testing::ToyDataset>(9, 21), *objective, communicator, {}, c10::kCPU},
        {.eval_batch = 8});
    std::vector<int64_t> ids;
    const auto table = evaluator.sample(Split::kVal, {.batches = 2, .images_per_batch = 3});
    for (const auto& row : table->rows) ids.push_back(row.id);
    EXPECT_EQ(ids, (std::vector<int64_t>{0, 4, 8, 12, 16, 20}));
  });
}

// A prediction of one value for each sample.
class FirstFeature : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override { return input.slice(1, 0, 1); }
};

TEST(ShownResults, WithoutClassesThereAreValues) {
  FirstFeature model;
  Options options(Value::map(), "objective");
  const auto objective = make_objective("mse", options);
  const Batch batch{
      .input = at::tensor({1.5, 2.5}).view({2, 1}), .target = at::tensor({3.0, 4.0}), .index = at::arange(2)};
  PredictionTable table;
  append_rows(table, predict(model, batch, *objective), batch.input, testing::ToyDataset(1, 1));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_TRUE(table.class_names.empty());
  EXPECT_EQ(table.rows[1].guess, -1);
  EXPECT_EQ(table.rows[1].scores, std::vector<double>{2.5});
  EXPECT_EQ(table.rows[1].true_values, std::vector<double>{4});
}

// Twice the image.
class Doubled : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override { return 2 * input; }
};

PredictionTable doubled(const std::string& objective_name, const at::Tensor& target) {
  Doubled model;
  Options options(Value::map(), "objective");
  const auto objective = make_objective(objective_name, options);
  const Batch batch{.input = at::arange(8).to(at::kFloat).view({2, 1, 2, 2}), .target = target, .index = at::arange(2)};
  PredictionTable table;
  append_rows(table, predict(model, batch, *objective), batch.input, testing::ToyDataset(1, 1));
  return table;
}

TEST(ShownResults, AnImageForAnImageIsShownAsOne) {
  const auto rows = doubled("cross_entropy", at::tensor({3, 5}, at::kLong)).rows;  // a model with a loss of its own
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].output.bytes, (std::vector<uint8_t>{0, 85, 170, 255}));  // as the dataset shows it, not as scores
  EXPECT_EQ(rows[1].image.bytes, rows[1].output.bytes);
  EXPECT_TRUE(rows[1].scores.empty());
  EXPECT_EQ(rows[1].true_values, std::vector<double>{5});
}

TEST(ShownResults, AReconstructionIsAsItsObjectiveReadsIt) {
  const auto rows = doubled("bce", at::zeros({2, 1, 2, 2})).rows;
  const auto read = at::sigmoid(at::tensor({8.0, 10.0, 12.0, 14.0}));
  const auto expected = ((read - read[0]) / (read[3] - read[0]) * 255).round();
  ASSERT_EQ(rows[1].output.bytes.size(), 4U);
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(rows[1].output.bytes[i], expected[i].item<double>(), 1) << i;
  EXPECT_TRUE(rows[1].true_values.empty()) << "pixels";
}

// Scores of two classes for each of a sequence's symbols: their position, and the symbol.
class PositionAndSymbol : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return at::stack({at::arange(input.size(1)).expand(input.sizes()), input}, 2).to(at::kFloat);
  }
};

TEST(ShownResults, OfASequenceTheLastSymbolIsShown) {
  PositionAndSymbol model;
  const auto objective = counting_objective();
  const Batch batch{.input = at::tensor({7, 7, 7, 0, 0, 4}, at::kLong).view({2, 3}),
                    .target = at::tensor({1, 1, 0, 0, 0, 1}, at::kLong).view({2, 3}),
                    .index = at::arange(2)};
  const auto shown = predict(model, batch, *objective);
  EXPECT_TRUE(shown.guess.equal(at::tensor({1, 1}, at::kLong)));
  EXPECT_TRUE(shown.truth.equal(at::tensor({0, 1}, at::kLong)));
  EXPECT_TRUE(at::allclose(shown.scores, at::softmax(at::tensor({2.0F, 7.0F, 2.0F, 4.0F}).view({2, 2}), 1)));
  PredictionTable table;
  append_rows(table, shown, batch.input, testing::ToyDataset(1, 1));
  EXPECT_EQ(table.rows.at(1).truth, 1);
  EXPECT_EQ(table.rows.at(1).scores.size(), 2U);
}

// Scores of three classes for each pixel of a grey picture: the pixel counts for one of them.
class ClassOfGrey : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override { return -(input - at::arange(3).view({1, 3, 1, 1})).abs(); }
};

TEST(ShownResults, OfASegmentationTheClassesArePixels) {
  ClassOfGrey model;
  const auto objective = counting_objective();
  const Batch batch{.input = at::tensor({0, 1, 2, 2, 1, 0, 0, 1}).to(at::kFloat).view({2, 1, 2, 2}),
                    .target = at::zeros({2, 2, 2}, at::kLong),
                    .index = at::arange(2)};
  const auto shown = predict(model, batch, *objective);
  EXPECT_TRUE(shown.scores.equal(batch.input.flatten(1)));
  EXPECT_TRUE(shown.truth.equal(at::zeros({2, 4}, at::kLong)));
  PredictionTable table;
  append_rows(table, shown, batch.input, testing::ToyDataset(1, 1));
  EXPECT_EQ(table.rows.at(1).output.bytes, (std::vector<uint8_t>{127, 0, 0, 127}));
  EXPECT_TRUE(table.rows.at(1).scores.empty());
  EXPECT_EQ(prediction_head(shown, {}).substr(0, 15), "index,truth_0,t");
}

TEST(PredictionCsv, NamesClassesAndWritesNumbersThatReadBack) {
  const PredictedBatch batch{.index = at::tensor({4, 5}, at::kLong),
                             .scores = at::tensor({0.1F, 0.9F, 1.0F, 0.0F}).view({2, 2}),
                             .guess = at::tensor({1, 0}, at::kLong),
                             .truth = at::tensor({0, 0}, at::kLong)};
  const DataSpec spec{.classes = 2, .class_names = {"cup, mug", "owl"}};
  EXPECT_EQ(prediction_head(batch, spec), "index,truth,guess,\"score_cup, mug\",score_owl\n");
  EXPECT_EQ(prediction_lines(batch, spec), "4,\"cup, mug\",owl,0.1,0.9\n5,\"cup, mug\",\"cup, mug\",1,0\n");
  const DataSpec formulas{.classes = 2, .class_names = {"-5", "=1+1"}};
  EXPECT_EQ(prediction_lines(batch, formulas), "4,-5,'=1+1,0.1,0.9\n5,-5,-5,1,0\n") << "a number is none";
}

TEST(PredictionCsv, WithoutClassesThereAreValues) {
  const PredictedBatch batch{.index = at::tensor({7}, at::kLong),
                             .scores = at::tensor({1.5F, 2.5F}).view({1, 2}),
                             .truth = at::tensor({3.0, 4.0}).view({1, 2})};
  EXPECT_EQ(prediction_head(batch, {}), "index,truth_0,truth_1,prediction_0,prediction_1\n");
  EXPECT_EQ(prediction_lines(batch, {}), "7,3,4,1.5,2.5\n");
}

TEST(ShownResults, ImagesAreStretchedFromTheirLeastToTheirGreatestValue) {
  const testing::ToyDataset dataset(1, 1);
  const auto images = dataset.to_image(at::tensor({-1.F, 0.F, 1.F, 3.F, 5.F, 5.F, 5.F, 5.F}).view({2, 2, 2}));
  EXPECT_TRUE(at::equal(images, at::tensor({0, 64, 128, 255, 0, 0, 0, 0}, at::kByte).view({2, 1, 2, 2})));
  EXPECT_FALSE(dataset.to_image(at::zeros({2, 8})).defined());
}

TEST(ShownResults, AConfusionTableHasTheDatasetsNamesOrNumbers) {
  const auto counts = at::arange(4, at::kLong).view({2, 2});
  const auto named = confusion_table(counts, {.class_names = {"cat", "dog"}}, "val", 2, 30);
  EXPECT_EQ(named.class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(named.counts, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(confusion_table(counts.t(), {}, "val", 2, 30).class_names, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(confusion_table(counts.t(), {}, "val", 2, 30).counts, (std::vector<int64_t>{0, 2, 1, 3}));
}

}  // namespace
}  // namespace ddprun
