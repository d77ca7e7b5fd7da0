// SPDX-License-Identifier: MIT
#include "model_scene.h"
#include "problem.h"

#include <ddprun/testing/objective.h>

#include <ATen/ATen.h>

namespace ddprun::check {
namespace {

// The first sample, and all others: an uneven split shows a mean that is taken over something else.
std::vector<Predicted> parts_of(const ObjectiveTest& test) {
  const auto samples = test.prediction.size(0);
  if (samples < 4 || test.target.size(0) != samples)
    complain("the test's prediction has ", samples, " samples and its target ", test.target.size(0),
             ": expected at least 4 of both");
  return {{test.prediction.narrow(0, 0, 1), test.target.narrow(0, 0, 1)},
          {test.prediction.narrow(0, 1, samples - 1), test.target.narrow(0, 1, samples - 1)}};
}

at::Tensor loss_of(const Objective& objective, const at::Tensor& prediction, const at::Tensor& target) {
  return in_hook("loss()", [&] { return objective.loss(prediction, target); });
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
    if (counted > 0) sum += loss_of(*objective, prediction, target).item<double>() * counted;
    count += counted;
  }
  if (near(sum / count, whole)) return;
  complain("the loss of the batch is ", whole, ", but the mean over its samples ", sum / count,
           ": divide the sum by the number of samples, or the training depends on the number of workers; if not all of "
           "them count, counted() says how many do");
}

// All targets of the first part are ignored, and every second one of the others.
void check_ignored(const ObjectiveTest& test) {
  auto some = test;
  some.target = test.target.clone();
  some.target.slice(0, 0, test.target.size(0), 2).fill_(kIgnoredClass);
  check_mean(some);
  const auto prediction = test.prediction.detach().clone().requires_grad_();
  loss_of(*test.make(), prediction, at::full_like(test.target, kIgnoredClass)).backward();
  if (!prediction.grad().isfinite().all().item<bool>())
    complain("the gradient is not finite where all targets are ignored: such a part of a batch would spoil all others");
}

// Its only parameter is its prediction.
struct Given final : Model {
  explicit Given(const at::Tensor& prediction) { register_parameter("the prediction", prediction.detach().clone()); }
};

void check_gradients(const ObjectiveTest& test) {
  Given model(test.prediction);
  const auto objective = test.make();
  const auto loss = [&](const Batch& batch) { return objective->loss(model.parameters()[0], batch.target); };
  require_right(in_hook("loss() or backward()", [&] {
    return compare_gradients(model, loss, {.input = {}, .target = test.target}, test.prediction.numel(), 1);
  }));
}

void check_counts(const Objective& objective, const ObjectiveTest& test) {
  const auto counts = [&](const Predicted& part) {
    return in_hook("counts()", [&] { return objective.counts(part.prediction, part.target); });
  };
  const auto whole = counts({test.prediction, test.target});
  const auto parts = parts_of(test);
  const auto one = counts(parts[0]), other = counts(parts[1]);
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i].keys.defined()) continue;
    const auto sums = one.at(i).counts + other.at(i).counts;
    if (sums.sizes() == whole[i].counts.sizes() && at::allclose(sums, whole[i].counts)) continue;
    complain("the counts ", whole[i].name, " of two parts do not add up to those of the batch");
  }
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
    const auto metrics = [&](const Predicted& part) {
      return in_hook("metrics()", [&] { return objective->metrics(part.prediction, part.target); });
    };
    const auto parts = parts_of(test);
    require_sums(metrics({test.prediction, test.target}), metrics(parts[0]), metrics(parts[1]));
    check_counts(*objective, test);
  });
}

std::vector<std::string> all(const ObjectiveTest& test) {
  return problems_of({{"mean_over_samples", [&] { return mean_over_samples(test); }},
                      {"gradients", [&] { return gradients(test); }},
                      {"metrics_add_up", [&] { return metrics_add_up(test); }}});
}

}  // namespace ddprun::check
