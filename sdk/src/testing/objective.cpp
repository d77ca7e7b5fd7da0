// SPDX-License-Identifier: MIT
#include "problem.h"

#include <ddprun/testing/objective.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace ddprun::check {
namespace {

constexpr int64_t kFirstPart = 1;  // an uneven split shows a mean that is taken over something else
constexpr double kTolerance = 1e-5;

int64_t samples_of(const ObjectiveTest& test) {
  const auto samples = test.prediction.size(0);
  if (samples < 4 || test.target.size(0) != samples)
    complain("the test's prediction has ", samples, " samples and its target ", test.target.size(0),
             ": expected at least 4 of both");
  return samples;
}

at::Tensor loss_of(const Objective& objective, const at::Tensor& prediction, const at::Tensor& target) {
  const auto loss = in_hook("loss()", [&] { return objective.loss(prediction, target); });
  if (!loss.defined() || loss.dim() != 0 || !loss.is_floating_point())
    complain("loss() gives ", loss.defined() ? c10::str(loss.sizes(), " ", loss.scalar_type()) : "nothing",
             ": expected a scalar of floats, the mean over the samples");
  if (!std::isfinite(loss.item<double>())) complain("loss() is ", loss.item<double>(), ": expected a finite number");
  return loss;
}

bool near(double found, double expected) {
  return std::abs(found - expected) <= kTolerance * std::max(1.0, std::abs(expected));
}

// One part of the batch: the first sample, or all others.
struct Part {
  at::Tensor prediction, target;
};
std::vector<Part> parts_of(const ObjectiveTest& test) {
  const auto rest = samples_of(test) - kFirstPart;
  return {{test.prediction.narrow(0, 0, kFirstPart), test.target.narrow(0, 0, kFirstPart)},
          {test.prediction.narrow(0, kFirstPart, rest), test.target.narrow(0, kFirstPart, rest)}};
}

// Returns how many targets the loss is the mean over.
double counted_of(const Objective& objective, const at::Tensor& target) {
  const auto counted = in_hook("counted()", [&] { return objective.counted(target); });
  return counted.defined() ? counted.item<double>() : static_cast<double>(target.size(0));
}

void check_mean(const ObjectiveTest& test) {
  const auto objective = test.make();
  const auto whole = loss_of(*objective, test.prediction, test.target).item<double>();
  double sum = 0, count = 0;
  for (const auto& [prediction, target] : parts_of(test)) {
    const auto counted = counted_of(*objective, target);
    sum += loss_of(*objective, prediction, target).item<double>() * counted;
    count += counted;
  }
  const auto mean = sum / count;
  if (near(mean, whole)) return;
  complain("the loss of the batch is ", whole, ", but the mean over its samples ", mean,
           ": divide the sum by the number of samples, or the training depends on the number of workers; if not all of "
           "them count, counted() says how many do");
}

// The test with every second target ignored, but for the first part's.
ObjectiveTest with_ignored(const ObjectiveTest& test) {
  auto some = test;
  if (test.target.scalar_type() != at::kLong) complain("the test's targets are no classes: int64 is expected");
  some.target = test.target.clone();
  some.target.slice(0, kFirstPart + 1, samples_of(test), 2).fill_(kIgnoredClass);
  return some;
}

void check_ignored(const ObjectiveTest& test) {
  check_mean(with_ignored(test));
  const auto prediction = test.prediction.detach().clone().requires_grad_();
  const auto none = at::full_like(test.target, kIgnoredClass);
  const auto loss = in_hook("loss()", [&] { return test.make()->loss(prediction, none); });
  loss.backward();
  if (!prediction.grad().isfinite().all().item<bool>())
    complain("the gradient is not finite where all targets are ignored: such a part of a batch would spoil all others");
}

void check_gradients(const ObjectiveTest& test) {
  const auto objective = test.make();
  const auto prediction = test.prediction.detach().to(at::kDouble).clone().requires_grad_();
  const auto target = test.target.is_floating_point() ? test.target.to(at::kDouble) : test.target;
  const auto loss = loss_of(*objective, prediction, target);
  if (!loss.requires_grad()) complain("the loss does not depend on the prediction: nothing would be trained");
  loss.backward();
  constexpr double kStep = 1e-4;
  const at::NoGradGuard no_gradients;
  auto values = prediction.detach().clone().contiguous();
  auto* number = values.data_ptr<double>();
  const auto gradient = prediction.grad().contiguous();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double kept = number[i];
    number[i] = kept + kStep;
    const double above = loss_of(*objective, values, target).item<double>();
    number[i] = kept - kStep;
    const double below = loss_of(*objective, values, target).item<double>();
    number[i] = kept;
    const double slope = (above - below) / (2 * kStep), found = gradient.data_ptr<double>()[i];
    if (std::abs(found - slope) > 1e-4 * std::max(1.0, std::abs(slope)))
      complain("backward gives ", found, " for number ", i, " of the prediction, finite differences ", slope);
  }
}

// "accuracy, top5".
template <class Metrics>
std::string names_of(const Metrics& metrics) {
  std::string text;
  for (const auto& metric : metrics) text += (text.empty() ? "" : ", ") + metric.name;
  return text;
}

template <class Metrics>
void require_same_names(const char* hook, const Metrics& part, const Metrics& whole) {
  if (names_of(part) == names_of(whole)) return;
  complain(hook, " names ", names_of(whole), " for the batch and ", names_of(part), " for a part of it");
}

void check_metrics(const Objective& objective, const ObjectiveTest& test) {
  const auto metrics = [&](const Part& part) {
    return in_hook("metrics()", [&] { return objective.metrics(part.prediction, part.target); });
  };
  const auto whole = metrics({test.prediction, test.target});
  std::vector<double> sums(whole.size());
  std::vector<int64_t> counts(whole.size());
  for (const auto& part : parts_of(test)) {
    const auto found = metrics(part);
    require_same_names("metrics()", found, whole);
    for (size_t i = 0; i < whole.size(); ++i) {
      sums[i] += found[i].sum.item<double>();
      counts[i] += count_of(found[i]);
    }
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    const auto& name = whole[i].name;
    const auto sum = whole[i].sum.item<double>();
    const auto count = count_of(whole[i]);
    if (count < 1) complain("the metric ", name, " counts ", count, " samples of the batch: expected at least 1");
    if (counts[i] != count || !near(sums[i], sum))
      complain("the metric ", name, " is ", sum, " / ", count, " of the batch, but its parts add up to ", sums[i],
               " / ", counts[i], ": give a sum over samples, and their number");
  }
}

void check_counts(const Objective& objective, const ObjectiveTest& test) {
  const auto counts = [&](const Part& part) {
    return in_hook("counts()", [&] { return objective.counts(part.prediction, part.target); });
  };
  const auto summary = [&](const std::vector<MetricCounts>& totals) {
    return in_hook("summary()", [&] { return objective.summary(totals); });
  };
  const auto whole = counts({test.prediction, test.target});
  std::vector<MetricCounts> sums;
  for (const auto& part : parts_of(test)) {
    const auto found = counts(part);
    require_same_names("counts()", found, whole);
    for (size_t i = 0; i < found.size(); ++i) {
      const auto type = found[i].counts.scalar_type();
      if (type != at::kLong && type != at::kDouble)
        complain("the counts ", found[i].name, " are of type ", type, ": expected int64 or float64");
      if (found[i].counts.sizes() != whole[i].counts.sizes())
        complain("the counts ", whole[i].name, " have the shape ", whole[i].counts.sizes(), " for the batch and ",
                 found[i].counts.sizes(), " for a part of it");
      if (sums.size() < found.size()) {
        sums.push_back({found[i].name, found[i].counts.clone()});
      } else {
        sums[i].counts += found[i].counts;
      }
    }
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!at::allclose(sums[i].counts.to(at::kDouble), whole[i].counts.to(at::kDouble)))
      complain("the counts ", whole[i].name, " of two parts do not add up to those of the batch");
  }
  const auto of_whole = summary(whole), of_sums = summary(sums);
  bool same = of_whole.size() == of_sums.size();
  for (size_t i = 0; same && i < of_whole.size(); ++i) {
    const auto& [name, value] = of_whole[i];
    same = name == of_sums[i].first &&
           (near(of_sums[i].second, value) || (std::isnan(value) && std::isnan(of_sums[i].second)));
  }
  if (!same) complain("summary() gives other metrics for the same counts when it is called again");
}

}  // namespace

ObjectiveTest class_test(Maker<Objective> make, int64_t classes) {
  at::manual_seed(1);
  return {
      .make = std::move(make), .prediction = at::randn({8, classes}), .target = at::randint(classes, {8}, at::kLong)};
}

std::string mean_over_samples(const ObjectiveTest& test) {
  return problem_of([&] { check_mean(test); });
}

std::string ignores_classes(const ObjectiveTest& test) {
  return problem_of([&] { check_ignored(test); });
}

std::string gradients(const ObjectiveTest& test) {
  return problem_of([&] { check_gradients(test); });
}

std::string metrics_add_up(const ObjectiveTest& test) {
  return problem_of([&] {
    const auto objective = test.make();
    const at::NoGradGuard no_gradients;
    check_metrics(*objective, test);
    check_counts(*objective, test);
  });
}

std::vector<std::string> all(const ObjectiveTest& test) {
  return problems_of({{"mean_over_samples", [&] { return mean_over_samples(test); }},
                      {"gradients", [&] { return gradients(test); }},
                      {"metrics_add_up", [&] { return metrics_add_up(test); }}});
}

}  // namespace ddprun::check
