// SPDX-License-Identifier: MIT
#include "train/evaluator.h"

#include "support/ranks.h"
#include "support/toy.h"
#include "train/objective.h"
#include "train/shown_results.h"

#include <gtest/gtest.h>

#include <mutex>

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
  metrics.items() = {Value::scalar("accuracy"), Value::scalar("confusion")};
  auto values = Value::map();
  values.set("metrics", std::move(metrics));
  Options options(values, "objective");
  return make_objective("cross_entropy", options, Phase::kEvaluation);
}

std::vector<Evaluation> evaluate_on(int64_t ranks, int64_t samples, int64_t batch) {
  std::vector<Evaluation> found(static_cast<size_t>(ranks));
  testing::on_ranks(ranks, [&](Communicator& communicator) {
    const auto objective = counting_objective();
    Evaluator evaluator(
        {toy_model(), std::make_shared<testing::ToyDataset>(9, samples), *objective, communicator, c10::kCPU},
        {.eval_batch = batch});
    found[static_cast<size_t>(communicator.world().rank)] = *evaluator.run(Split::kVal, [] { return false; });
  });
  return found;
}

TEST(Evaluator, ConfusionCountsEverySampleOnceAtAnyNumberOfRanks) {
  const auto alone = evaluate_on(1, 41, 20).front();
  ASSERT_TRUE(alone.confusion.defined());
  EXPECT_EQ(alone.confusion.sum().item<int64_t>(), 41);
  EXPECT_EQ(alone.confusion.trace().item<double>(), alone.totals.at(1).sum);  // the diagonal is what accuracy counts
  for (const int64_t ranks : {2, 3, 4}) {                                     // the fourth has no batch
    for (const auto& mine : evaluate_on(ranks, 41, 20)) {
      ASSERT_TRUE(mine.confusion.defined()) << ranks;
      EXPECT_TRUE(at::equal(mine.confusion, alone.confusion)) << ranks;
    }
  }
}

TEST(Evaluator, WithoutTheMetricThereIsNoConfusion) {
  testing::on_ranks(2, [&](Communicator& communicator) {
    const testing::MeanCrossEntropy objective;
    Evaluator evaluator({toy_model(), std::make_shared<testing::ToyDataset>(9, 20), objective, communicator, c10::kCPU},
                        {.eval_batch = 8});
    EXPECT_FALSE(evaluator.run(Split::kVal, [] { return false; })->confusion.defined());
  });
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
