// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good objective, which all of them pass, and one objective for each thing that
// they find.
#include <ddprun/objective.h>
#include <ddprun/testing/objective.h>

#include <gmock/gmock.h>
#include <torch/types.h>

namespace ddprun::check {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class Classes : public Objective {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return cross_entropy(prediction, target);
  }
  at::Tensor counted(const at::Tensor& target) const override { return count_classes(target); }

  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    return {{.name = "accuracy", .sum = count_correct(prediction, target), .counted = counted(target)}};
  }
  std::vector<MetricCounts> counts(const at::Tensor& prediction, const at::Tensor&) const override {
    return {{.name = "guesses", .counts = prediction.argmax(1).bincount({}, prediction.size(1))}};
  }
};

template <class Kind>
ObjectiveTest objective_test_of() {
  return class_test([] { return std::make_shared<Kind>(); }, 3);
}

TEST(ObjectiveChecks, FindNothingWrongWithAGoodObjective) {
  EXPECT_THAT(all(objective_test_of<Classes>()), IsEmpty());
  EXPECT_EQ(ignores_classes(objective_test_of<Classes>()), "");
}

class SummedLoss : public Classes {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return Classes::loss(prediction, target) * target.size(0);
  }
};

TEST(ObjectiveMean, IsOverTheSamples) {
  EXPECT_THAT(mean_over_samples(objective_test_of<SummedLoss>()), HasSubstr("divide the sum by the number of samples"));
}

class SilentOnIgnored : public Classes {
 public:
  at::Tensor counted(const at::Tensor&) const override { return {}; }
};

// Divides by the number of those that count, be there none.
class Spoiling : public Classes {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    const auto counts = target.ne(kIgnoredClass);
    return (prediction.square().sum(1) * counts).sum() / counts.sum();
  }
};

TEST(ObjectiveIgnored, AddNothingAndAreNotCounted) {
  EXPECT_THAT(ignores_classes(objective_test_of<SilentOnIgnored>()), HasSubstr("counted() says how many do"));
  EXPECT_THAT(ignores_classes(objective_test_of<Spoiling>()), StartsWith("the gradient is not finite where all"));
}

class DetachedFactor : public Classes {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return Classes::loss(prediction, target) * prediction.detach().square().mean();
  }
};

TEST(ObjectiveGradients, AreThoseOfFiniteDifferences) {
  EXPECT_THAT(gradients(objective_test_of<DetachedFactor>()), StartsWith("of the prediction backward gives "));
}

class MeanForASum : public Classes {
 public:
  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    return {{.name = "size", .sum = prediction.abs().mean(), .count = target.size(0)}};
  }
};

class SharesForCounts : public Classes {
 public:
  std::vector<MetricCounts> counts(const at::Tensor& prediction, const at::Tensor& target) const override {
    auto counts = Classes::counts(prediction, target);
    counts[0].counts = counts[0].counts.to(at::kDouble) / target.size(0);
    return counts;
  }
};

TEST(ObjectiveMetrics, AddUpOverPartsOfABatch) {
  EXPECT_THAT(metrics_add_up(objective_test_of<MeanForASum>()), StartsWith("metric size is "));
  EXPECT_EQ(metrics_add_up(objective_test_of<SharesForCounts>()),
            "the counts guesses of two parts do not add up to those of the batch");
}

TEST(ObjectiveChecks, TellWhichOfThemFoundWhat) {
  EXPECT_THAT(all(objective_test_of<MeanForASum>()), ElementsAre(StartsWith("metrics_add_up: metric size")));
}

}  // namespace
}  // namespace ddprun::check
