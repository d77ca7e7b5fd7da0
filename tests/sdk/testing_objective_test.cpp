// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good objective, which all of them pass, and a fault for each thing that they
// find.
#include "support/error_of.h"

#include <ddprun/objective.h>
#include <ddprun/testing/objective.h>

#include <torch/types.h>

#include <functional>

namespace ddprun::check {
namespace {

// A fault takes the place of one of its hooks.
class Classes : public Objective {
 public:
  std::function<at::Tensor(const at::Tensor& prediction, const at::Tensor& target)> losses =
      [](const at::Tensor& prediction, const at::Tensor& target) { return cross_entropy(prediction, target); };
  bool counts_ignored = false;  // counted() says nothing
  bool has_means = false;       // in place of sums and counts

  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return losses(prediction, target);
  }
  at::Tensor counted(const at::Tensor& target) const override {
    return counts_ignored ? at::Tensor() : count_classes(target);
  }
  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    if (has_means) return {{.name = "size", .sum = prediction.abs().mean(), .count = target.size(0)}};
    return {{.name = "accuracy", .sum = count_correct(prediction, target), .counted = counted(target)}};
  }
  std::vector<MetricCounts> counts(const at::Tensor& prediction, const at::Tensor& target) const override {
    const auto counts = prediction.argmax(1).bincount({}, prediction.size(1));
    return {{.name = "guesses", .counts = shares ? counts.to(at::kDouble) / target.size(0) : counts}};
  }
  bool shares = false;  // in place of counts
};

using SpoilObjective = std::function<void(Classes&)>;

ObjectiveTest objective_test(const SpoilObjective& spoil) {
  return class_test(
      [spoil] {
        auto objective = std::make_shared<Classes>();
        spoil(*objective);
        return objective;
      },
      3);
}

// Divides by the number of those that count, be there none.
void divide_by_none(Classes& objective) {
  objective.losses = [](const at::Tensor& prediction, const at::Tensor& target) {
    const auto counts = target.ne(kIgnoredClass);
    return (prediction.square().sum(1) * counts).sum() / counts.sum();
  };
}

TEST(ObjectiveChecks, FindEachFaultAndNothingWrongWithAGoodObjective) {
  const auto good = objective_test([](Classes&) {});
  EXPECT_EQ(all(good), std::vector<std::string>());
  EXPECT_EQ(ignores_classes(good), "");
  struct Fault {
    std::string (*check)(const ObjectiveTest&);
    SpoilObjective spoil;
    std::string words;
  };
  const std::vector<Fault> faults{
      {mean_over_samples,
       [](Classes& one) {
         one.losses = [](const auto& prediction, const auto& target) {
           return cross_entropy(prediction, target) * target.size(0);
         };
       },
       "divide the sum by the number of samples"},
      {ignores_classes, [](Classes& one) { one.counts_ignored = true; }, "counted() says how many do"},
      {ignores_classes, divide_by_none, "the gradient is not finite where all"},
      {gradients,
       [](Classes& one) {
         one.losses = [](const auto& prediction, const auto& target) {
           return cross_entropy(prediction, target) * prediction.detach().square().mean();
         };
       },
       "of the prediction backward gives "},
      {metrics_add_up, [](Classes& one) { one.shares = true; },
       "the counts guesses of two parts do not add up to those of the batch"},
      {metrics_add_up, [](Classes& one) { one.has_means = true; }, "metric size is "}};
  for (const auto& fault : faults) EXPECT_TRUE(says(fault.check(objective_test(fault.spoil)), fault.words));
  const auto found = all(objective_test(faults.back().spoil));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(says(found[0], "metrics_add_up: metric size"));
}

}  // namespace
}  // namespace ddprun::check
