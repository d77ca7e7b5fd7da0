// SPDX-License-Identifier: MIT
// Checks that a model trains the same on one rank and on two, whose parts of a batch are computed one after the other.
#include "model_scene.h"
#include "problem.h"

#include <ddprun/testing/model.h>

#include <ATen/ATen.h>

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
  Share share{.counted = step.counted.defined() ? step.counted.item<double>() : static_cast<double>(batch.size()),
              .metrics = std::move(step.metrics)};
  if (share.counted > 0) share.loss = step.loss.item<double>();
  for (const auto& [name, value] : trainable_parameters(scene.model())) {
    share.gradients.push_back(value.grad().defined() ? value.grad().clone() : at::zeros_like(value.detach()));
  }
  return share;
}

int64_t samples_of_first_rank(const Batch& batch) {
  if (batch.size() < 3) complain("the test's batch has ", batch.size(), " samples; two ranks need at least 3");
  return batch.size() * 3 / 8;
}

void compare_shares(const ModelScene& scene, const Batch& batch, const char* mode) {
  const auto few = samples_of_first_rank(batch);
  const auto whole = compute(scene, batch);
  const auto small = compute(scene, part(batch, 0, few)), large = compute(scene, part(batch, few, batch.size() - few));
  const double weight = small.counted / (small.counted + large.counted);
  const double mean = weight * small.loss + (1 - weight) * large.loss;
  if (!near(whole.loss, mean))
    complain("in ", mode, " the loss of a batch is ", whole.loss,
             ", but the mean over two ranks that have a part of it each is ", mean,
             ": it must be the mean over the samples, each apart from the others");
  require_sums(whole.metrics, small.metrics, large.metrics);
  const auto parameters = trainable_parameters(scene.model());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto gradient = small.gradients[i] * weight + large.gradients[i] * (1 - weight);
    if (at::allclose(gradient, whole.gradients[i], 1e-6, 1e-9)) continue;
    complain("in ", mode, " the gradient of ", parameters[i].name, " for ", batch.size(),
             " samples is not the mean over two ranks with ", few, " and ", batch.size() - few,
             " of them: a sample's loss must not depend on the others of its batch, and if some targets do not count, "
             "Step::counted says how many do");
  }
}

bool has_classes_of_parts(const Batch& batch) {
  return batch.target.scalar_type() == at::kLong && batch.target.dim() > 1;
}

// Returns the batch without any symbol or pixel that counts for the first rank, and with some of each sample for the
// other.
Batch with_ignored(Batch batch) {
  batch.target = batch.target.clone();
  for (int64_t i = 0; i < batch.size(); ++i) {
    const auto classes = batch.target[i].view(-1);
    const auto kept = i < samples_of_first_rank(batch) ? 0 : classes.size(0) * (i + 1) / batch.size();
    classes.slice(0, kept).fill_(kIgnoredClass);
  }
  return batch;
}

// Returns true if, in training too, the loss is a function of weights and samples alone.
bool is_plain_in_training(const ModelScene& scene) {
  scene.model().train();
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
    const bool plain = is_plain_in_training(scene);
    scene.model().train(plain);
    compare_shares(scene, scene.batch(), plain ? "training" : "evaluation");
    if (has_classes_of_parts(scene.batch()))
      compare_shares(scene, with_ignored(scene.batch()), "a batch with targets that do not count");
  });
}

}  // namespace ddprun::check
