// SPDX-License-Identifier: MIT
#include "metrics/class_metrics.h"

#include "metrics/metric_counts.h"
#include "metrics/objective.h"
#include "support/objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Objective> measuring(const std::string& name, const std::string& metrics) {
  return testing::objective(name, "{metrics: [" + metrics + "]}");
}

using Measured = std::map<std::string, double>;

// Returns the metrics of a split in two batches.
Measured measured(const Objective& objective, const at::Tensor& prediction, const at::Tensor& target,
                  int64_t most_keys = CountSums::kMostKeys) {
  CountSums sums(most_keys);
  const auto half = target.size(0) / 2;
  sums.add(objective.counts(prediction.slice(0, 0, half), target.slice(0, 0, half)));
  sums.add(objective.counts(prediction.slice(0, half), target.slice(0, half)));
  const auto values = objective.summary(sums.sums());
  return {values.begin(), values.end()};
}

// Logits for which these classes are the guesses.
at::Tensor guessing(const at::Tensor& guess, int64_t classes) {
  return torch::nn::functional::one_hot(guess, classes).to(at::kFloat);
}

const auto kTruth = [] { return torch::tensor({0, 0, 1, 2, 2, 2}, at::kLong); };
const auto kGuess = [] { return torch::tensor({0, 1, 1, 2, 2, 0}, at::kLong); };

const std::string kAll =
    "precision, precision_micro, recall, recall_micro, f1, f1_micro, mean_iou, mcc, balanced_accuracy";

// Class 3 is neither in the targets nor among the guesses, so that the means are over three classes.
TEST(ClassMetrics, AreThoseOfTheWholeConfusionMatrix) {
  const auto found = measured(*measuring("cross_entropy", kAll), guessing(kGuess(), 4), kTruth());
  EXPECT_DOUBLE_EQ(found.at("precision"), (1.0 / 2 + 1.0 / 2 + 2.0 / 2) / 3);
  EXPECT_DOUBLE_EQ(found.at("recall"), (1.0 / 2 + 1.0 + 2.0 / 3) / 3);
  EXPECT_DOUBLE_EQ(found.at("balanced_accuracy"), found.at("recall"));
  EXPECT_DOUBLE_EQ(found.at("f1"), (1.0 / 2 + 2.0 / 3 + 4.0 / 5) / 3);
  EXPECT_DOUBLE_EQ(found.at("mean_iou"), (1.0 / 3 + 1.0 / 2 + 2.0 / 3) / 3);
  for (const auto* micro : {"precision_micro", "recall_micro", "f1_micro"}) EXPECT_DOUBLE_EQ(found.at(micro), 4.0 / 6);
  EXPECT_DOUBLE_EQ(found.at("mcc"), (6 * 4 - 12) / std::sqrt(36.0 - 14) / std::sqrt(36.0 - 12));
}

TEST(ClassMetrics, AClassThatIsOnlyGuessedCountsExceptForTheBalancedAccuracy) {
  const auto truth = torch::tensor({0, 0, 1, 1}, at::kLong), guess = torch::tensor({0, 0, 1, 2}, at::kLong);
  const auto found = measured(*measuring("cross_entropy", kAll), guessing(guess, 3), truth);
  EXPECT_DOUBLE_EQ(found.at("recall"), (1.0 + 0.5 + 0) / 3);
  EXPECT_DOUBLE_EQ(found.at("balanced_accuracy"), (1.0 + 0.5) / 2);
}

TEST(ClassMetrics, WithoutAChoiceThereIsNoCorrelation) {
  const auto guess = torch::zeros({6}, at::kLong);
  EXPECT_EQ(measured(*measuring("nll", "mcc"), guessing(guess, 4), kTruth()).at("mcc"), 0);
}

TEST(ClassMetrics, OfEachClassHaveTheDatasetsNamesOrNumbers) {
  auto made = measuring("cross_entropy", "f1_per_class, iou_per_class");
  const auto numbered = measured(*made, guessing(kGuess(), 4), kTruth());
  EXPECT_DOUBLE_EQ(numbered.at("f1/2"), 4.0 / 5);
  EXPECT_DOUBLE_EQ(numbered.at("f1/3"), 0);
  EXPECT_DOUBLE_EQ(numbered.at("iou/1"), 1.0 / 2);
  made->prepare({.class_names = {"cat", "dog", "owl", "yak"}});
  EXPECT_DOUBLE_EQ(measured(*made, guessing(kGuess(), 4), kTruth()).at("f1/owl"), 4.0 / 5);
}

TEST(ClassMetrics, LeaveOutWhatCrossEntropyIgnores) {
  const auto made = measuring("cross_entropy", "f1, mcc, auroc, average_precision, recall_micro");
  torch::manual_seed(2);
  const auto prediction = torch::randn({40, 3}), target = torch::randint(3, {40}, at::kLong);
  auto some = target.clone();
  some.slice(0, 0, 15) = -100;
  EXPECT_EQ(measured(*made, prediction, some), measured(*made, prediction.slice(0, 15), target.slice(0, 15)));
}

TEST(ClassMetrics, OfLabelsAreMeansOverLabels) {
  const auto logits = torch::tensor({{1., -1.}, {1., 1.}, {-1., -1.}, {1., -1.}});
  const auto truth = torch::tensor({{1., 0.}, {1., 0.}, {1., 0.}, {0., 0.}});
  const auto found = measured(*measuring("bce", kAll), logits, truth);
  EXPECT_DOUBLE_EQ(found.at("precision"), (2.0 / 3 + 0) / 2) << "a label that no sample has is none to leave out";
  EXPECT_DOUBLE_EQ(found.at("f1"), (4.0 / 6 + 0) / 2);
  EXPECT_DOUBLE_EQ(found.at("f1_micro"), 4.0 / 7);
  EXPECT_DOUBLE_EQ(found.at("balanced_accuracy"), ((2.0 / 3 + 0) / 2 + 3.0 / 4) / 2);
}

TEST(ClassMetrics, OfOneLabelAreThoseOfTheSamplesThatHaveIt) {
  const auto logits = torch::tensor({{1.}, {1.}, {-1.}, {-1.}, {-1.}}), truth = torch::tensor({1., 0., 1., 0., 0.});
  const auto found = measured(*measuring("bce", kAll), logits, truth);
  EXPECT_DOUBLE_EQ(found.at("precision"), 0.5);
  EXPECT_DOUBLE_EQ(found.at("f1"), 0.5);
  EXPECT_DOUBLE_EQ(found.at("mean_iou"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(found.at("balanced_accuracy"), (1.0 / 2 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(found.at("mcc"), (1.0 * 2 - 1 * 1) / std::sqrt(2.0 * 2 * 3 * 3));
  const auto pixels = measured(*measuring("bce", kAll), logits.view({5, 1, 1, 1}), truth.view({5, 1, 1, 1}));
  EXPECT_EQ(pixels, found) << "the samples are pixels";
}

TEST(Ranking, RanksATieHalfRight) {
  const auto logits = torch::tensor({2., 1., 1., 0.}), truth = torch::tensor({1., 1., 0., 0.});
  const auto found = measured(*measuring("bce", "auroc, average_precision"), logits, truth);
  EXPECT_DOUBLE_EQ(found.at("auroc"), 3.5 / 4);
  EXPECT_DOUBLE_EQ(found.at("average_precision"), (1.0 + 2.0 / 3) / 2);
}

TEST(Ranking, TakesEachClassAgainstTheRest) {
  const auto prediction = torch::tensor({{0.7, 0.2, 0.1}, {0.3, 0.6, 0.1}, {0.4, 0.5, 0.1}, {0.1, 0.8, 0.1}}).log();
  const auto found =
      measured(*measuring("nll", "auroc, auroc_per_class, average_precision, average_precision_per_class"), prediction,
               torch::tensor({0, 1, 0, 1}, at::kLong));
  EXPECT_DOUBLE_EQ(found.at("auroc/0"), 1);
  EXPECT_DOUBLE_EQ(found.at("auroc/2"), 0) << "no sample has it";
  EXPECT_DOUBLE_EQ(found.at("auroc"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(found.at("average_precision"), 1) << "over the classes that samples have";
  EXPECT_TRUE(std::isnan(found.at("average_precision/2")));
}

TEST(Ranking, KnowsHowFarItIsOffWhereBinsWereJoined) {
  torch::manual_seed(3);
  const auto truth = torch::randint(2, {500, 2}, at::kLong), scores = torch::rand({500, 2}) * 0.7 + truth * 0.3;
  const auto ranked = [&](int64_t most_keys) {
    CountSums sums(most_keys);
    sums.add({score_counts(scores, truth.eq(1))});
    return rankings(sums.sums().front(), 2);
  };
  const auto exact = ranked(CountSums::kMostKeys);
  for (const int64_t most : {1000, 200, 50, 8}) {
    const auto coarse = ranked(most);
    for (size_t label = 0; label < 2; ++label) {
      EXPECT_EQ(coarse[label].positives, exact[label].positives);
      EXPECT_NEAR(coarse[label].auroc, exact[label].auroc, coarse[label].auroc_error + 1e-12) << most;
      EXPECT_NEAR(coarse[label].average_precision, exact[label].average_precision,
                  coarse[label].average_precision_error + 1e-12);
      EXPECT_EQ(coarse[label].auroc_error > 0, most < 1000);
      EXPECT_LT(coarse[label].auroc_error, most >= 200 ? 0.02 : 0.5);
    }
  }
}

TEST(ClassMetrics, HaveNoValueWhereAPredictionIsNan) {
  auto prediction = guessing(kGuess(), 4);
  prediction[3][1] = std::nan("");
  ::testing::internal::CaptureStderr();
  const auto found = measured(*measuring("cross_entropy", "f1, auroc"), prediction, kTruth());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the model's predictions are NaN for 1 of 6 samples, so that f1 and the other metrics of "
                        "classes have no value"));
  EXPECT_TRUE(std::isnan(found.at("f1")));
  EXPECT_TRUE(std::isnan(found.at("auroc")));
}

TEST(MetricNames, SayMeansFromWhatOnlyEvaluationsMeasure) {
  const auto names = metric_names("cross_entropy", *measuring("cross_entropy", "accuracy, f1, f1_per_class"));
  EXPECT_THAT(names.means, ElementsAre("loss", "accuracy"));
  EXPECT_THAT(names.of_evaluations, ElementsAre("f1", "f1/*"));
  EXPECT_THAT(metric_names("bce", *measuring("bce", "auroc")).of_evaluations, ElementsAre("auroc"));
}

}  // namespace
}  // namespace ddprun
