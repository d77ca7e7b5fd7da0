// SPDX-License-Identifier: MIT
// Checks that a model trains the same on one rank and on two, whose parts of a batch are computed one after the other.
#include "model_scene.h"
#include "problem.h"

#include <ddprun/testing/model.h>

#include <ATen/ATen.h>

#include <cmath>

namespace ddprun::check {
namespace {

struct Share {
  double loss = 0, counted = 0;       // the mean over how many samples, or parts of them
  std::vector<at::Tensor> gradients;  // undefined if there is none
  std::vector<MetricSum> metrics;
};

Share compute(const ModelScene& scene, const Batch& batch) {
  scene.model().zero_grad();
  at::manual_seed(3);
  auto step = scene.step(batch);
  in_hook("backward()", [&] { step.loss.backward(); });
  Share share{.loss = step.loss.item<double>(),
              .counted = step.counted.defined() ? step.counted.item<double>() : static_cast<double>(batch.size()),
              .metrics = std::move(step.metrics)};
  for (const auto& [name, value] : trainable_parameters(scene.model())) {
    share.gradients.push_back(value.grad().defined() ? value.grad().clone() : at::Tensor());
  }
  return share;
}

at::Tensor weighted(const at::Tensor& one, double weight, const at::Tensor& other, double other_weight) {
  if (!one.defined()) return other.defined() ? other * other_weight : other;
  return other.defined() ? one * weight + other * other_weight : one * weight;
}

bool close(double one, double other) { return std::abs(one - other) <= 1e-8 + 1e-6 * std::abs(one); }

void compare_losses(const Share& whole, const Share& small, const Share& large, double weight) {
  const double mean = weight * small.loss + (1 - weight) * large.loss;
  if (close(whole.loss, mean)) return;
  const bool sum = close(whole.loss, small.loss + large.loss);
  complain("the loss of a batch is ", whole.loss, ", but the mean over two ranks that have a part of it each is ", mean,
           sum ? ": step() gives the sum over its samples; give their mean"
               : ": it must be the mean over the samples, each apart from the others");
}

void compare_metrics(const Share& whole, const Share& small, const Share& large) {
  if (whole.metrics.size() != small.metrics.size() || whole.metrics.size() != large.metrics.size()) {
    complain(
        "step() gives other metrics for another batch: the same names in the same order are expected from every call");
  }
  for (size_t i = 0; i < whole.metrics.size(); ++i) {
    const auto &one = whole.metrics[i], &two = small.metrics[i], &three = large.metrics[i];
    if (one.name != two.name || one.name != three.name)
      complain("step() gives the metric ", one.name, " for one batch, ", two.name, " for another");
    const double sums = two.sum.item<double>() + three.sum.item<double>();
    const auto count = count_of(two) + count_of(three);
    if (count_of(one) == count && close(one.sum.item<double>(), sums)) continue;
    complain("metric ", one.name, " is ", one.sum.item<double>(), " of ", count_of(one), " for a batch, but ", sums,
             " of ", count, " where two ranks have a part of it each: give a sum over the samples, and their count");
  }
}

void compare_shares(const ModelScene& scene, const Batch& batch, const char* mode) {
  const int64_t few = batch.size() * 3 / 8;
  if (few < 1) complain("the test's batch has ", batch.size(), " samples; two ranks need at least 3");
  const auto whole = compute(scene, batch);
  const auto small = compute(scene, part(batch, 0, few)), large = compute(scene, part(batch, few, batch.size() - few));
  const double weight = small.counted / (small.counted + large.counted);
  compare_losses(whole, small, large, weight);
  compare_metrics(whole, small, large);
  const auto parameters = trainable_parameters(scene.model());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto mean = weighted(small.gradients[i], weight, large.gradients[i], 1 - weight);
    const auto& expected = whole.gradients[i];
    if (!mean.defined() && !expected.defined()) continue;
    if (mean.defined() && expected.defined() && at::allclose(mean, expected, 1e-6, 1e-9)) continue;
    complain("in ", mode, " the gradient of ", parameters[i].name, " for ", batch.size(),
             " samples is not the mean over two ranks with ", few, " and ", batch.size() - few,
             " of them: a sample's loss must not depend on the others of its batch, and if some targets do not count, "
             "Step::counted says how many do");
  }
}

// Returns the batch with ever fewer of the sample's symbols or pixels ignored, or with all of them.
Batch with_ignored(Batch batch, bool all) {
  batch.target = batch.target.clone();
  for (int64_t i = 0; i < batch.size(); ++i) {
    const auto classes = batch.target[i].view(-1);
    const auto kept = all ? 0 : classes.size(0) * (i + 1) / batch.size();
    classes.slice(0, kept).fill_(kIgnoredClass);
  }
  return batch;
}

// Classes of symbols or pixels may be kIgnoredClass.
void compare_ignored(const ModelScene& scene) {
  const auto& target = scene.batch().target;
  if (target.scalar_type() != at::kLong || target.dim() < 2) return;
  compare_shares(scene, with_ignored(scene.batch(), false), "evaluation, with targets that do not count,");
  for (const auto& gradient : compute(scene, with_ignored(scene.batch(), true)).gradients) {
    if (gradient.defined() && !gradient.isfinite().all().item<bool>())
      complain(
          "the gradient is not finite for a batch without a target that counts: such a part would spoil all others");
  }
}

// Returns true if, in training too, the loss is a function of weights and samples alone.
bool is_plain_in_training(const ModelScene& scene) {
  if (!scene.model().buffers().empty()) return false;
  const at::NoGradGuard no_gradients;
  at::manual_seed(4);
  const auto one = scene.step().loss;
  at::manual_seed(5);
  return at::equal(one, scene.step().loss);
}

}  // namespace

std::string ranks_agree(const ModelTest& test) {
  return problem_of([&] {
    ModelScene scene(test);
    scene.widen();
    scene.model().eval();
    compare_shares(scene, scene.batch(), "evaluation");
    compare_ignored(scene);
    scene.model().train();
    if (is_plain_in_training(scene)) compare_shares(scene, scene.batch(), "training");
  });
}

}  // namespace ddprun::check
