// SPDX-License-Identifier: MIT
#include "metrics/objective.h"

#include "metrics/measured_objective.h"
#include "metrics/metric_counts.h"
#include "metrics/metric_sums.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"
#include "step/operator_log.h"
#include "support/error_of.h"

#include <ddprun/error.h>
#include <ddprun/fused_layers.h>
#include <ddprun/testing/objective.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

namespace F = torch::nn::functional;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Value list(const std::vector<std::string>& words) {
  auto value = Value::list();
  for (const auto& word : words) value.items().push_back(Value::scalar(word));
  return value;
}

Value with(const std::string& key, Value value) {
  auto values = Value::map();
  values.set(key, std::move(value));
  return values;
}

std::unique_ptr<Objective> objective(const std::string& name, Value values = {}) {
  Options options(std::move(values), "objective");
  auto made = make_objective(name, options);
  EXPECT_THAT(options.problems(), ElementsAre());
  return made;
}

std::string problem(const std::string& name, Value values = {}) {
  Options options(std::move(values), "objective");
  make_objective(name, options);
  return options.problems().empty() ? "" : options.problems().front();
}

std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing";
}

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
  for (const auto& options :
       {Value(), with("label_smoothing", Value::scalar("0.1")), with("class_weights", list({"1", "2", "0.5", "4"}))}) {
    const auto loss = objective("cross_entropy", options);
    const auto expected = 0.7 * loss->loss(kLogits(), first) + 0.3 * loss->loss(kLogits(), second);
    EXPECT_NEAR(loss->loss(kLogits(), shares).item<double>(), expected.item<double>(), 1e-6);
  }
  const auto plain = objective("cross_entropy");
  EXPECT_EQ(value(plain->metrics(kLogits(), shares), "accuracy"), value(plain->metrics(kLogits(), first), "accuracy"));
  EXPECT_THAT(thrown([&] { objective("nll")->loss(kLogits(), shares); }), HasSubstr("nll expects"));
}

// To bring them to a GPU again in each step would wait for it.
TEST(Objective, ClassWeightsAreMadeOnce) {
  const auto weighted = objective("cross_entropy", with("class_weights", list({"1", "1", "3", "1"})));
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
  const auto made = objective("cross_entropy", with("class_weights", list({"1", "1", "3", "1"})));
  const auto each = F::cross_entropy(kLogits(), kLabels(), F::CrossEntropyFuncOptions().reduction(torch::kNone));
  const auto expected = (each * torch::tensor({1., 3., 3.})).sum() / 3;
  EXPECT_TRUE(torch::allclose(made->loss(kLogits(), kLabels()), expected));
  EXPECT_THAT(thrown([&] { made->loss(torch::zeros({3, 5}), kLabels()); }),
              HasSubstr("objective.class_weights: 4 weights, but the model predicts 5 classes"));
}

TEST(Objective, NllTakesLogProbabilities) {
  const auto made = objective("nll");
  EXPECT_TRUE(torch::allclose(made->loss(torch::log_softmax(kLogits(), 1), kLabels()),
                              objective("cross_entropy")->loss(kLogits(), kLabels())));
  EXPECT_TRUE(torch::allclose(made->scores(torch::log_softmax(kLogits(), 1)), torch::softmax(kLogits(), 1)));
}

TEST(Objective, BinaryCrossEntropyTakesOneLogitOrSeveral) {
  const auto logits = torch::tensor({{1.}, {-2.}, {0.5}}), target = torch::tensor({1., 0., 0.});
  const auto made = objective("bce", with("metrics", list({"accuracy", "confusion"})));
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
  const auto made = objective("cross_entropy", with("metrics", list({"accuracy", "top2", "top9"})));
  const auto sums = made->metrics(kLogits(), kLabels());
  EXPECT_DOUBLE_EQ(value(sums, "accuracy"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(value(sums, "top2"), 1.0);
  EXPECT_DOUBLE_EQ(value(sums, "top9"), 1.0);  // more than there are classes
}

TEST(Objective, APredictionThatIsNanIsWrongAndToldAndInNoConfusionMatrix) {
  const auto made = objective("cross_entropy", with("metrics", list({"accuracy", "top2", "confusion"})));
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
  const auto made = objective("cross_entropy", with("label_smoothing", Value::scalar("0.1")));
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
    const auto made = objective("cross_entropy", with("label_smoothing", Value::scalar(smoothing)));
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
    for (const auto& weights : {list({}), list({"1", "2", "0.5"})}) {
      const auto make = [&] { return std::shared_ptr<Objective>(objective(name, with("class_weights", weights))); };
      const check::ObjectiveTest symbols{.make = make,
                                         .prediction = at::log_softmax(torch::randn({6, 4, 3}), 2),
                                         .target = torch::randint(3, {6, 4}, at::kLong)};
      EXPECT_EQ(check::ignores_classes(symbols), "") << name;
    }
  }
}

TEST(Objective, TheConfusionMatrixIsCountedIfItIsAskedFor) {
  const auto asked = with("metrics", list({"confusion"}));
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

TEST(Objective, ShapesThatDoNotFitAreNamedBoth) {
  const auto text =
      thrown([] { objective("cross_entropy")->loss(torch::zeros({5, 4}), torch::zeros({6}, at::kLong)); });
  EXPECT_THAT(text, HasSubstr("the model returned [5, 4]"));
  EXPECT_THAT(text, HasSubstr("target is [6]"));
  EXPECT_THAT(thrown([] { objective("mse")->loss(torch::zeros({5, 2}), torch::zeros({5})); }),
              HasSubstr("objective: mse expects"));
}

TEST(WatchedObjective, AsksAClassifierForANumberForEachClass) {
  const WatchedObjective watched(objective("cross_entropy"), 4);
  EXPECT_FALSE(watched.was_asked());
  EXPECT_EQ(thrown([&] { watched.loss(torch::zeros({5, 7}), torch::zeros({5}, at::kLong)); }),
            "model: forward() gives [5, 7]: expected [5, 4], a number for each of the dataset's classes. Give its last "
            "layer 4 outputs; a network from Python gets them where it is exported, most often by --set num_classes=4");
  EXPECT_TRUE(watched.was_asked());
  EXPECT_EQ(thrown([&] { watched.loss(torch::zeros({5, 4}), torch::zeros({5}, at::kLong)); }), "nothing");
  const WatchedObjective of_anything(objective("cross_entropy"));
  EXPECT_EQ(thrown([&] { of_anything.loss(torch::zeros({5, 7}), torch::zeros({5}, at::kLong)); }), "nothing");
}

// The logits of each symbol are the input itself.
class OfSymbols final : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override { return input; }
};

TEST(DefaultStep, TakesSequencesAsTheirSymbols) {
  OfSymbols model;
  model.eval();
  const auto logits = torch::randn({2, 5, 4}), target = torch::randint(4, {2, 5}, at::kLong);
  const WatchedObjective watched(objective("cross_entropy", with("metrics", list({"accuracy", "confusion"}))), 4);
  auto step = model.step({.input = logits, .target = target}, watched);
  const auto flat = logits.flatten(0, 1);
  EXPECT_NEAR(step.loss.item<double>(), F::cross_entropy(flat, target.flatten()).item<double>(), 1e-6);
  EXPECT_EQ(step.metrics.front().counted.item<int64_t>(), 10);
  EXPECT_TRUE(at::equal(step.metrics.front().sum, flat.argmax(1).eq(target.flatten()).sum()));
  EXPECT_EQ(confusion_of(step.counts).sum().item<int64_t>(), 10);
  target[1][2] = -100;
  step = model.step({.input = logits, .target = target}, watched);
  EXPECT_EQ(confusion_of(step.counts).sum().item<int64_t>(), 9) << "a symbol that cross-entropy ignores is no class";
  EXPECT_EQ(step.counted.item<int64_t>(), 9);
}

TEST(DefaultStep, TellsTheShapeThatItExpectsOfSequences) {
  OfSymbols model;
  const WatchedObjective watched(objective("cross_entropy"), 4, "predict");
  const auto target = torch::zeros({2, 5}, at::kLong);
  EXPECT_EQ(thrown([&] { model.step({.input = torch::zeros({2, 4}), .target = target}, watched); }),
            "model: predict() gives [2, 4]: expected [2, 5, 4], a number for each of the dataset's classes");
}

TEST(DefaultStep, TakesPixelsAsSamplesOfWhichSomeDoNotCount) {
  OfSymbols model;
  model.eval();
  const auto logits = torch::randn({4, 3, 5, 6}), target = torch::randint(3, {4, 5, 6}, at::kLong);
  target[1] = -100;
  target[2][3] = -100;
  const WatchedObjective watched(objective("cross_entropy", with("metrics", list({"accuracy", "top2", "confusion"}))),
                                 3, "predict");
  const auto flat = logits.permute({0, 2, 3, 1}).reshape({120, 3}), classes = target.flatten();
  const auto whole = model.step({.input = logits, .target = target}, watched);
  constexpr int64_t kCounted = 120 - 30 - 6;
  EXPECT_TRUE(at::equal(whole.loss, F::cross_entropy(logits, target))) << "PyTorch's loss of the pixels, bit for bit";
  EXPECT_EQ(whole.counted.item<int64_t>(), kCounted);
  EXPECT_EQ(whole.metrics[0].counted.item<int64_t>(), kCounted);
  EXPECT_TRUE(at::equal(whole.metrics[0].sum, flat.argmax(1).eq(classes).sum()));
  EXPECT_TRUE(at::equal(whole.metrics[1].sum, std::get<1>(flat.topk(2, 1)).eq(classes.unsqueeze(1)).sum()));
  EXPECT_EQ(confusion_of(whole.counts).sum().item<int64_t>(), kCounted);

  Communicator alone({});
  MetricSums at_once, in_parts;
  CountSums counts;
  at_once.add(whole, 4);
  for (const auto& [begin, end] : {std::pair(0, 1), std::pair(1, 4)}) {
    const auto step =
        model.step({.input = logits.slice(0, begin, end), .target = target.slice(0, begin, end)}, watched);
    in_parts.add(step, end - begin);
    counts.add(step.counts);
  }
  EXPECT_TRUE(at::allclose(at_once.numbers()[0], in_parts.numbers()[0]));
  EXPECT_TRUE(at::equal(at_once.numbers()[1], in_parts.numbers()[1]));
  EXPECT_TRUE(at::equal(confusion_of(counts.sums()), confusion_of(whole.counts)));
  EXPECT_EQ(thrown([&] { model.step({.input = torch::zeros({4, 5, 6, 3}), .target = target}, watched); }),
            "model: predict() gives [4, 5, 6, 3]: expected [4, 3, 5, 6], a number for each of the dataset's classes");
}

TEST(DefaultStep, TakesVoxelsAsItTakesPixels) {
  OfSymbols model;
  model.eval();
  const auto logits = torch::randn({2, 3, 4, 5, 6}), target = torch::randint(3, {2, 4, 5, 6}, at::kLong);
  target[1][0] = -100;
  const WatchedObjective watched(objective("cross_entropy", with("metrics", list({"accuracy", "confusion"}))), 3);
  const auto step = model.step({.input = logits, .target = target}, watched);
  EXPECT_TRUE(at::equal(step.loss, F::cross_entropy(logits, target)));
  EXPECT_EQ(step.counted.item<int64_t>(), 240 - 30);
  EXPECT_TRUE(at::equal(step.metrics[0].sum, logits.argmax(1).eq(target).sum()));
  EXPECT_EQ(confusion_of(step.counts).sum().item<int64_t>(), 240 - 30);
}

TEST(WatchedObjective, TellsTheShapesWhereATargetIsNoneOfTheClasses) {
  const WatchedObjective watched(objective("cross_entropy"));
  try {
    watched.loss(torch::zeros({2, 7}), torch::full({2}, 7, at::kLong));
    ADD_FAILURE() << "took a class of 7 outputs for the eighth";
  } catch (const PluginFailure& error) {
    EXPECT_THAT(error.what(), HasSubstr("prediction of [2, 7] for targets of [2]"));
  }
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
  EXPECT_EQ(section_of(WatchedObjective(objective("nll", with("class_weights", list({"1", "2"}))))),
            "objective.class_weights");
}

TEST(Objective, AnUnknownNameIsAProblemWithTheNearestOne) {
  const PluginChoice misspelt{.plugin = "cross_entrpy", .path = "objective"};
  EXPECT_THAT(error_of([&] { make_objective(misspelt, PluginHost({})); }), HasSubstr("did you mean cross_entropy?"));
}

TEST(Objective, AMetricOfAnotherKindOfTaskIsRefusedWithTheKnownOnes) {
  EXPECT_THAT(
      problem("mse", with("metrics", list({"accuracy"}))),
      HasSubstr("objective.metrics: mse has no metric \"accuracy\", which is one of classes: cross_entropy, nll and "
                "bce have it; known: mae, mse"));
  EXPECT_THAT(problem("bce", with("metrics", list({"f1_macro"}))), HasSubstr("did you mean f1?"));
  EXPECT_THAT(problem("nll", with("metrics", list({"top"}))), HasSubstr("no metric \"top\""));
}

TEST(ObjectiveKeys, NameTheObjectivesThatKnowThem) {
  std::vector<std::string> told;
  for (const auto& key : objective_keys()) told.push_back(key.name + ": " + key.help.substr(0, key.help.find(": ")));
  EXPECT_THAT(told,
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
  const auto metrics = list({"accuracy", "f1", "auroc", "confusion"});
  MeasuredObjective measured(std::make_shared<PositiveShare>(), metrics);
  const auto built_in = objective("cross_entropy", with("metrics", metrics));
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
  MeasuredObjective of_labels(std::make_shared<PositiveShare>(), list({"accuracy", "f1"}));
  of_labels.prepare({});
  EXPECT_EQ(of_labels.metrics(logits, labels).at(1).sum.item<double>(), 3);
  MeasuredObjective of_values(std::make_shared<PositiveShare>(), list({"mae"}));
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
  const auto made = [](const char* name) { return MeasuredObjective(std::make_shared<Accuracy>(), list({name})); };
  EXPECT_THAT(thrown([&] { made("f2"); }), HasSubstr("has no metric \"f2\""));
  auto twice = made("accuracy");
  twice.prepare({.classes = 4});
  EXPECT_THAT(thrown([&] { twice.metrics(kLogits(), kLabels()); }), HasSubstr("the loss measures accuracy by itself"));
}

}  // namespace
}  // namespace ddprun
