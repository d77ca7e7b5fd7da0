// SPDX-License-Identifier: MIT
#include "metrics/objective.h"

#include "metrics/measured_objective.h"
#include "metrics/metric_counts.h"
#include "metrics/metric_sums.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"
#include "step/operator_log.h"
#include "support/error_of.h"
#include "support/objective.h"

#include <ddprun/error.h>
#include <ddprun/fused_layers.h>
#include <ddprun/testing/objective.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>

namespace ddprun {
namespace {

namespace F = torch::nn::functional;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::objective;
using testing::yaml;

const auto kLogits = [] { return torch::tensor({{2., 1., 0., -1.}, {0., 3., 1., 0.}, {1., 0., 2., 3.}}); };
const auto kLabels = [] { return torch::tensor({0, 2, 2}, at::kLong); };

double value(const std::vector<MetricSum>& sums, const std::string& name) {
  for (const auto& sum : sums) {
    if (sum.name == name) return sum.sum.item<double>() / static_cast<double>(sum.count);
  }
  ADD_FAILURE() << "no metric " << name;
  return -1;
}

at::Tensor confusion_of(const std::vector<MetricCounts>& counts) {
  const auto confusion = std::ranges::find(counts, kConfusion, &MetricCounts::name);
  return confusion == counts.end() ? at::Tensor() : confusion->counts;
}

// Mixed samples have a share of each class.
TEST(Objective, CrossEntropyOfSharesIsTheSumOfThoseOfTheirClasses) {
  const auto first = kLabels(), second = torch::tensor({1, 2, 0}, at::kLong);
  const auto shares = at::one_hot(first, 4).mul(0.7) + at::one_hot(second, 4).mul(0.3);
  for (const auto* options : {"{}", "{label_smoothing: 0.1}", "{class_weights: [1, 2, 0.5, 4]}"}) {
    const auto loss = objective("cross_entropy", options);
    const auto expected = 0.7 * loss->loss(kLogits(), first) + 0.3 * loss->loss(kLogits(), second);
    EXPECT_NEAR(loss->loss(kLogits(), shares).item<double>(), expected.item<double>(), 1e-6);
  }
  const auto plain = objective("cross_entropy");
  EXPECT_EQ(value(plain->metrics(kLogits(), shares), "accuracy"), value(plain->metrics(kLogits(), first), "accuracy"));
}

// To bring them to a GPU again in each step would wait for it.
TEST(Objective, ClassWeightsAreMadeOnce) {
  const auto weighted = objective("cross_entropy", "{class_weights: [1, 1, 3, 1]}");
  const auto operators = [](const Objective& objective) {
    OperatorLog log(at::kCPU);
    const Listening listening(&log);
    objective.loss(kLogits(), kLabels());
    return log.entries().size();
  };
  const auto first = operators(*weighted), second = operators(*weighted);
  EXPECT_GT(first, second);
  EXPECT_EQ(operators(*weighted), second);
}

TEST(Objective, ClassWeightsWeighSamplesAndTheMeanStaysOverSamples) {
  const auto made = objective("cross_entropy", "{class_weights: [1, 1, 3, 1]}");
  const auto each = F::cross_entropy(kLogits(), kLabels(), F::CrossEntropyFuncOptions().reduction(torch::kNone));
  const auto expected = (each * torch::tensor({1., 3., 3.})).sum() / 3;
  EXPECT_TRUE(torch::allclose(made->loss(kLogits(), kLabels()), expected));
}

TEST(Objective, NllTakesLogProbabilities) {
  const auto made = objective("nll");
  EXPECT_TRUE(torch::allclose(made->loss(torch::log_softmax(kLogits(), 1), kLabels()),
                              objective("cross_entropy")->loss(kLogits(), kLabels())));
  EXPECT_TRUE(torch::allclose(made->scores(torch::log_softmax(kLogits(), 1)), torch::softmax(kLogits(), 1)));
}

TEST(Objective, BinaryCrossEntropyTakesOneLogitOrSeveral) {
  const auto logits = torch::tensor({{1.}, {-2.}, {0.5}}), target = torch::tensor({1., 0., 0.});
  const auto made = objective("bce", "{metrics: [accuracy, confusion]}");
  EXPECT_TRUE(
      torch::allclose(made->loss(logits, target), torch::binary_cross_entropy_with_logits(logits.squeeze(1), target)));
  EXPECT_DOUBLE_EQ(value(made->metrics(logits, target), "accuracy"), 2.0 / 3);
  EXPECT_TRUE(torch::equal(confusion_of(made->counts(logits, target)), torch::tensor({{1, 1}, {0, 1}}, at::kLong)));
  const auto several = torch::tensor({{1., -1.}, {2., 3.}}), labels = torch::tensor({{1., 1.}, {1., 1.}});
  EXPECT_DOUBLE_EQ(value(made->metrics(several, labels), "accuracy"), 0.75);
}

TEST(Objective, BinaryCrossEntropyRefusesTargetsThatAreNoLabels) {
  const auto made = objective("bce");
  const auto logits = at::zeros({2, 2});
  EXPECT_NO_THROW(made->loss(logits, at::tensor({0., 0.3, 0.7, 1.}, at::kFloat).view({2, 2})));
  for (const float wrong : {-100.F, -1.F, 1.5F, 255.F}) {
    const auto problem = error_of([&] { made->loss(logits, at::tensor({0.F, 1.F, wrong, 1.F}).view({2, 2})); });
    EXPECT_THAT(problem, HasSubstr("bce expects targets of 0 to 1, found " + c10::str(wrong)));
  }
}

TEST(Objective, RegressionLossesAreTorchsAndTheirMetricIsTheMeanAbsoluteError) {
  const auto prediction = torch::tensor({1., 2., 5.}), target = torch::tensor({1., 4., 4.});
  EXPECT_TRUE(torch::allclose(objective("mse")->loss(prediction, target), torch::mse_loss(prediction, target)));
  EXPECT_TRUE(torch::allclose(objective("l1")->loss(prediction, target), torch::l1_loss(prediction, target)));
  EXPECT_DOUBLE_EQ(value(objective("mse")->metrics(prediction, target), "mae"), 1.0);
  const auto column = prediction.unsqueeze(1);  // a linear layer of one output
  EXPECT_TRUE(torch::allclose(objective("mse")->loss(column, target), torch::mse_loss(prediction, target)));
}

TEST(Objective, TopKCountsTheTruthAmongTheBestK) {
  const auto made = objective("cross_entropy", "{metrics: [accuracy, top2, top9]}");
  const auto sums = made->metrics(kLogits(), kLabels());
  EXPECT_DOUBLE_EQ(value(sums, "accuracy"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(value(sums, "top2"), 1.0);
  EXPECT_DOUBLE_EQ(value(sums, "top9"), 1.0);  // more than there are classes
}

TEST(Objective, APredictionThatIsNanIsWrongAndReportedAndInNoConfusionMatrix) {
  const auto made = objective("cross_entropy", "{metrics: [accuracy, top2, confusion]}");
  auto prediction = torch::eye(3);
  prediction[0][1] = std::nan("");
  const auto target = torch::arange(3, at::kLong);
  EXPECT_DOUBLE_EQ(value(made->metrics(prediction, target), "accuracy"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(value(made->metrics(prediction, target), "top2"), 2.0 / 3);
  const auto counts = made->counts(prediction, target);
  EXPECT_EQ(confusion_of(counts).sum().item<int64_t>(), 2);
  ::testing::internal::CaptureStderr();
  made->summary(counts);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the model's predictions are NaN for 1 of 3 samples, which count as wrong, and which the "
                        "confusion matrix leaves out"));
}

TEST(Objective, LabelSmoothingIsPytorchsInEveryBit) {
  const auto made = objective("cross_entropy", "{label_smoothing: 0.1}");
  const auto prediction = torch::randn({7, 5}).requires_grad_(), target = torch::randint(5, {7}, at::kLong);
  const auto expected = F::cross_entropy(prediction, target, F::CrossEntropyFuncOptions().label_smoothing(0.1));
  EXPECT_TRUE(at::equal(made->loss(prediction, target), expected));
  const auto gradient = [&](const at::Tensor& loss) { return torch::autograd::grad({loss}, {prediction}).front(); };
  EXPECT_TRUE(at::equal(gradient(made->loss(prediction, target)), gradient(expected)));
}

// 17 million of them: what is made in parts has the bits of LibTorch's operations, which fused layers off chooses.
TEST(Objective, ManyLogitsHaveTheSameBitsInParts) {
  torch::manual_seed(3);
  const auto values = torch::randn({340, 50257});
  auto some = torch::randint(50257, {340}, at::kLong);
  some.index_put_({torch::indexing::Slice(0, 340, 7)}, kIgnoredClass);
  const auto none = torch::full({340}, kIgnoredClass, at::kLong);
  for (const auto* smoothing : {"0", "0.1"}) {
    const auto made = objective("cross_entropy", std::string("{label_smoothing: ") + smoothing + "}");
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      for (const auto& target : {some, none}) {
        const auto loss_and_gradient = [&](bool in_parts) {
          const FusedLayersScope fused(in_parts);
          const auto logits = values.to(type).requires_grad_();
          const auto loss = made->loss(logits, target);
          return std::vector{loss.detach(), torch::autograd::grad({loss * 3}, {logits}).front()};
        };
        const auto parts = loss_and_gradient(true), whole = loss_and_gradient(false);
        EXPECT_EQ(parts[1].scalar_type(), type);
        EXPECT_EQ(parts[0].isnan().item<bool>(), target.equal(none));
        for (size_t i : {0, 1})
          EXPECT_TRUE(at::equal(at::nan_to_num(parts[i], 7), at::nan_to_num(whole[i], 7))) << type << smoothing << i;
      }
    }
  }
}

TEST(Objective, ManyLogitsRefuseATargetThatIsNoClass) {
  const auto loss = [](const at::Tensor& target) {
    objective("cross_entropy")->loss(torch::zeros({340, 50257}), target);
  };
  EXPECT_THAT([&] { loss(torch::full({340}, 50257, at::kLong)); },
              ::testing::ThrowsMessage<std::exception>(HasSubstr("Target 50257 is out of bounds")));
}

TEST(Objective, OfClassesKeepsThePromisesOfThoseThatIgnoreSome) {
  for (const auto* name : {"cross_entropy", "nll"}) {
    for (const auto* weights : {"{}", "{class_weights: [1, 2, 0.5]}"}) {
      const auto make = [&] { return std::shared_ptr<Objective>(objective(name, weights)); };
      const check::ObjectiveTest symbols{.make = make,
                                         .prediction = at::log_softmax(torch::randn({6, 4, 3}), 2),
                                         .target = torch::randint(3, {6, 4}, at::kLong)};
      EXPECT_EQ(check::ignores_classes(symbols), "") << name;
    }
  }
}

TEST(Objective, TheConfusionMatrixIsCountedIfItIsAskedFor) {
  const auto* asked = "{metrics: [confusion]}";
  EXPECT_FALSE(confusion_of(objective("cross_entropy")->counts(kLogits(), kLabels())).defined());
  const auto counts = confusion_of(objective("cross_entropy", asked)->counts(kLogits(), kLabels()));
  EXPECT_EQ(counts.sum().item<int64_t>(), 3);
  EXPECT_EQ(counts[0][0].item<int64_t>(), 1);
  EXPECT_EQ(counts[2][1].item<int64_t>(), 1);
  EXPECT_EQ(counts[2][3].item<int64_t>(), 1);
}

TEST(Objective, HalfPrecisionPredictionsGiveASingleLoss) {
  EXPECT_EQ(objective("cross_entropy")->loss(kLogits().to(at::kBFloat16), kLabels()).scalar_type(), at::kFloat);
}

TEST(Objective, RefusesShapesThatDoNotFitNamingBoth) {
  const auto loss = [](const char* name, const at::Tensor& prediction, const at::Tensor& target,
                       const char* section = "{}") {
    return error_of([&] { objective(name, section)->loss(prediction, target); });
  };
  const auto* weights = "{class_weights: [1, 1, 3, 1]}";
  const auto of_four = torch::zeros({5, 4}), of_five = torch::zeros({3, 5});
  const std::vector<std::pair<std::string, std::string>> refusals{
      {loss("cross_entropy", of_four, torch::zeros({6}, at::kLong)), "the model returned [5, 4]"},
      {loss("cross_entropy", of_four, torch::zeros({6}, at::kLong)), "target is [6]"},
      {loss("nll", of_four, of_four), "nll expects"},
      {loss("mse", torch::zeros({5, 2}), torch::zeros({5})), "objective: mse expects"},
      {loss("cross_entropy", of_five, kLabels(), weights),
       "objective.class_weights: 4 weights, but the model predicts 5 classes"}};
  for (const auto& [text, words] : refusals) EXPECT_THAT(text, HasSubstr(words));
}

TEST(WatchedObjective, AsksAClassifierForANumberForEachClass) {
  const WatchedObjective watched(objective("cross_entropy"), 4);
  EXPECT_FALSE(watched.was_asked());
  EXPECT_EQ(error_of([&] { watched.loss(torch::zeros({5, 7}), torch::zeros({5}, at::kLong)); }),
            "model: forward() gives [5, 7]: expected [5, 4], a number for each of the dataset's classes. Give its last "
            "layer 4 outputs; a network from Python gets them where it is exported, most often by --set num_classes=4");
  EXPECT_TRUE(watched.was_asked());
  EXPECT_EQ(error_of([&] { watched.loss(torch::zeros({5, 4}), torch::zeros({5}, at::kLong)); }), "");
  const WatchedObjective of_anything(objective("cross_entropy"));
  EXPECT_EQ(error_of([&] { of_anything.loss(torch::zeros({5, 7}), torch::zeros({5}, at::kLong)); }), "");
}

// The logits of each symbol are the input itself.
class OfSymbols final : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override { return input; }
};

// Symbols, pixels and voxels, of which some do not count.
TEST(DefaultStep, TakesThePartsOfASampleAsSamples) {
  struct Shape {
    std::vector<int64_t> logits;
    int64_t classes;  // the dimension
  };
  const auto* metrics = "{metrics: [accuracy, top2, confusion]}";
  const WatchedObjective watched(objective("cross_entropy", metrics), 3, "predict");
  OfSymbols model;
  model.eval();
  for (const auto& [shape, dimension] : {Shape{{4, 5, 3}, 2}, Shape{{4, 3, 5, 6}, 1}, Shape{{4, 3, 4, 5, 6}, 1}}) {
    auto of_targets = shape;
    of_targets.erase(of_targets.begin() + dimension);
    const auto logits = torch::randn(shape), target = torch::randint(3, of_targets, at::kLong);
    target[1] = target[2][3] = kIgnoredClass;
    const auto flat = logits.movedim(dimension, -1).reshape({-1, 3}), truth = target.flatten();
    const auto counted = truth.ne(kIgnoredClass).sum();
    const auto whole = model.step({.input = logits, .target = target}, watched);
    const auto loss = dimension == 1 ? F::cross_entropy(logits, target) : F::cross_entropy(flat, truth);
    EXPECT_TRUE(at::equal(whole.loss, loss)) << "PyTorch's, bit for bit";
    EXPECT_TRUE(at::equal(whole.counted, counted));
    EXPECT_TRUE(at::equal(whole.metrics[0].counted, counted));
    EXPECT_TRUE(at::equal(whole.metrics[0].sum, flat.argmax(1).eq(truth).sum()));
    EXPECT_TRUE(at::equal(whole.metrics[1].sum, std::get<1>(flat.topk(2, 1)).eq(truth.unsqueeze(1)).sum()));
    EXPECT_TRUE(at::equal(confusion_of(whole.counts).sum(), counted));

    MetricSums at_once, in_parts;
    CountSums counts;
    at_once.add(whole, 4);
    for (const auto& [begin, end] : {std::pair(0, 1), std::pair(1, 4)}) {
      const Batch part{.input = logits.slice(0, begin, end), .target = target.slice(0, begin, end)};
      const auto step = model.step(part, watched);
      in_parts.add(step, end - begin);
      counts.add(step.counts);
    }
    EXPECT_TRUE(at::allclose(at_once.numbers()[0], in_parts.numbers()[0]));
    EXPECT_TRUE(at::equal(at_once.numbers()[1], in_parts.numbers()[1]));
    EXPECT_TRUE(at::equal(confusion_of(counts.sums()), confusion_of(whole.counts)));
  }
}

TEST(DefaultStep, NamesTheShapeThatItExpectsOfParts) {
  OfSymbols model;
  const auto refusal = [&](at::IntArrayRef input, at::IntArrayRef target, int64_t classes) {
    const WatchedObjective watched(objective("cross_entropy"), classes, "predict");
    const Batch batch{.input = torch::zeros(input), .target = torch::zeros(target, at::kLong)};
    return error_of([&] { model.step(batch, watched); });
  };
  const std::string end = ", a number for each of the dataset's classes";
  EXPECT_EQ(refusal({2, 4}, {2, 5}, 4), "model: predict() gives [2, 4]: expected [2, 5, 4]" + end);
  EXPECT_EQ(refusal({4, 5, 6, 3}, {4, 5, 6}, 3), "model: predict() gives [4, 5, 6, 3]: expected [4, 3, 5, 6]" + end);
}

TEST(WatchedObjective, NamesTheShapesWhereATargetIsNoneOfTheClasses) {
  const WatchedObjective watched(objective("cross_entropy"));
  const auto loss = [&] { watched.loss(torch::zeros({2, 7}), torch::full({2}, 7, at::kLong)); };
  EXPECT_THAT(error_of<PluginFailure>(loss), HasSubstr("prediction of [2, 7] for targets of [2]"));
}

TEST(WatchedObjective, NamesTheObjectiveInItsErrors) {
  const auto section_of = [](const WatchedObjective& watched) -> std::string {
    try {
      watched.loss(torch::zeros({5, 4}), torch::zeros({5}, at::kLong));
    } catch (const FromPlugin& error) {
      return error.section;
    }
    return "";
  };
  EXPECT_EQ(section_of(WatchedObjective(objective("mse"))), "objective");
  EXPECT_EQ(section_of(WatchedObjective(objective("nll", "{class_weights: [1, 2]}"))), "objective.class_weights");
}

TEST(Objective, AnUnknownNameIsAProblemWithTheNearestOne) {
  const PluginChoice misspelt{.plugin = "cross_entrpy", .path = "objective"};
  EXPECT_THAT(error_of([&] { make_objective(misspelt, PluginHost({})); }), HasSubstr("did you mean cross_entropy?"));
}

TEST(Objective, AMetricOfAnotherKindOfTaskIsRefusedWithTheKnownOnes) {
  const std::vector<std::array<std::string, 3>> refusals{
      {"mse", "accuracy",
       "mse has no metric \"accuracy\", which is one of classes: cross_entropy, nll and bce have it"},
      {"mse", "accuracy", "; known: mae, mse"},
      {"bce", "f1_macro", "did you mean f1?"},
      {"nll", "top", "no metric \"top\""}};
  for (const auto& [name, metric, words] : refusals)
    EXPECT_THAT(error_of([&] { objective(name, "{metrics: [" + metric + "]}"); }), HasSubstr(words));
}

TEST(ObjectiveKeys, NameTheObjectivesThatKnowThem) {
  std::vector<std::string> reported;
  for (const auto& key : objective_keys())
    reported.push_back(key.name + ": " + key.help.substr(0, key.help.find(": ")));
  EXPECT_THAT(reported,
              ElementsAre("name: the loss", "class_weights: cross_entropy, nll", "metrics: cross_entropy, nll, bce",
                          "label_smoothing: cross_entropy", "metrics: mse, l1"));
}

// A plugin's loss, which measures the share of positive predictions.
class PositiveShare final : public Objective {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor&) const override { return prediction.mean(); }
  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor&) const override {
    return {{.name = "positive", .sum = prediction.gt(0).sum(), .count = prediction.size(0)}};
  }
};

std::vector<std::string> names_of(const std::vector<MetricSum>& sums) {
  std::vector<std::string> names;
  for (const auto& sum : sums) names.push_back(sum.name);
  return names;
}

TEST(MeasuredObjectives, MeasureWhatTheBuiltInOneDoesBesidesTheirOwn) {
  const std::string metrics = "[accuracy, f1, auroc, confusion]";
  MeasuredObjective measured(std::make_shared<PositiveShare>(), yaml(metrics));
  const auto built_in = objective("cross_entropy", "{metrics: " + metrics + "}");
  measured.prepare({.classes = 4});
  built_in->prepare({.classes = 4});
  EXPECT_EQ(measured.loss(kLogits(), kLabels()).item<float>(), kLogits().mean().item<float>());
  EXPECT_THAT(names_of(measured.metrics(kLogits(), kLabels())), ElementsAre("positive", "accuracy"));
  CountSums mine, theirs;
  mine.add(measured.counts(kLogits(), kLabels()));
  theirs.add(built_in->counts(kLogits(), kLabels()));
  EXPECT_EQ(measured.summary(mine.sums()), built_in->summary(theirs.sums()));
  EXPECT_EQ(measured.summary(mine.sums()).size(), 2);
}

TEST(MeasuredObjectives, AreOfLabelsOrValuesWhereTheDataHaveNoClasses) {
  const auto logits = torch::tensor({{2., -1.}, {-1., 3.}}), labels = torch::tensor({{1., 0.}, {1., 1.}});
  MeasuredObjective of_labels(std::make_shared<PositiveShare>(), yaml("[accuracy, f1]"));
  of_labels.prepare({});
  EXPECT_EQ(of_labels.metrics(logits, labels).at(1).sum.item<double>(), 3);
  MeasuredObjective of_values(std::make_shared<PositiveShare>(), yaml("[mae]"));
  of_values.prepare({});
  EXPECT_THAT(names_of(of_values.metrics(logits, labels)), ElementsAre("positive", "mae"));
}

TEST(MeasuredObjectives, RefuseUnknownNamesAndThoseThatTheLossHas) {
  class Accuracy final : public Objective {
    at::Tensor loss(const at::Tensor& prediction, const at::Tensor&) const override { return prediction.mean(); }
    std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor&) const override {
      return {{.name = "accuracy", .sum = prediction.sum(), .count = 1}};
    }
  };
  const auto made = [](const char* name) { return MeasuredObjective(std::make_shared<Accuracy>(), yaml(name)); };
  EXPECT_THAT(error_of([&] { made("[f2]"); }), HasSubstr("has no metric \"f2\""));
  auto twice = made("[accuracy]");
  twice.prepare({.classes = 4});
  EXPECT_THAT(error_of([&] { twice.metrics(kLogits(), kLabels()); }),
              HasSubstr("the loss measures accuracy by itself"));
}

}  // namespace
}  // namespace ddprun
