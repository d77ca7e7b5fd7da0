// SPDX-License-Identifier: MIT
#include "model_scene.h"

#include "problem.h"

#include <ATen/ATen.h>

namespace ddprun::check {
namespace {

// Numbers every sample, so that a test need not.
Batch with_index(Batch batch) {
  if (batch.input.defined() && !batch.index.defined()) batch.index = at::arange(batch.input.size(0), at::kLong);
  return batch;
}

class CrossEntropy final : public Objective {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return cross_entropy(prediction, target);
  }

  at::Tensor counted(const at::Tensor& target) const override { return count_classes(target); }

  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    return {{.name = "accuracy", .sum = count_correct(prediction.detach(), target), .counted = counted(target)}};
  }
};

class MeanSquaredError final : public Objective {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return at::mse_loss(prediction.reshape_as(target), target.to(prediction.scalar_type()));
  }
};

std::shared_ptr<const Objective> default_objective(const DataSpec& data) {
  if (data.classes > 0) return std::make_shared<CrossEntropy>();
  return std::make_shared<MeanSquaredError>();
}

}  // namespace

Batch random_batch(const DataSpec& data, int64_t count, uint64_t seed) {
  at::manual_seed(seed);
  auto shape = data.sample_shape;
  shape.insert(shape.begin(), count);
  Batch batch{.input = at::randn(shape), .index = at::arange(count, at::kLong)};
  if (data.classes > 0) batch.target = at::randint(data.classes, {count}, at::kLong);
  for (const auto& [name, sample] : data.extras) {
    auto sizes = sample;
    sizes.insert(sizes.begin(), count);
    batch.extras[name] = at::ones(sizes);
  }
  return batch;
}

ModelScene::ModelScene(const ModelTest& test, uint64_t seed)
    : batch_(test.batch.input.defined() ? with_index(test.batch) : random_batch(test.data, 8)),
      objective_(test.objective ? test.objective : default_objective(test.data)) {
  at::manual_seed(seed);
  model_ = in_hook("the constructor", [&] { return test.make(); });
  in_hook("prepare()", [&] { model_->prepare(test.data); });
  if (!batch_.target.defined()) fill_target(test.data);
}

// Fills in values of the shape that the model predicts; the model's own state does not change.
void ModelScene::fill_target(const DataSpec& data) {
  if (data.classes > 0) complain("the test's batch has no target");
  const at::NoGradGuard no_gradients;
  const bool training = model_->is_training();
  model_->eval();
  const auto prediction = predict(batch_);
  model_->train(training);
  at::manual_seed(2);
  batch_.target = at::randn(prediction.sizes());
}

Step ModelScene::step(const Batch& batch) const {
  auto step = in_hook("step()", [&] { return model_->step(batch, *objective_); });
  if (!step.loss.defined() || (at::GradMode::is_enabled() && !step.loss.requires_grad()))
    complain("the loss of step() is not attached to the graph, so nothing can be trained");
  return step;
}

at::Tensor ModelScene::predict(const Batch& batch) const {
  return in_hook(model_->has_default_predict() ? "forward()" : "predict()", [&] { return model_->predict(batch); });
}

void ModelScene::widen() {
  cast_floating_point(*model_, at::kDouble);
  batch_.replace_tensors(
      [](const at::Tensor& tensor) { return tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor; });
}

Batch part(const Batch& batch, int64_t from, int64_t count) {
  auto some = batch;
  some.replace_tensors([&](const at::Tensor& tensor) { return tensor.narrow(0, from, count); });
  some.index = batch.index.narrow(0, from, count);
  return some;
}

void require_right(const std::vector<GradientFinding>& findings) {
  for (const auto& finding : findings) {
    if (!finding.wrong()) continue;
    complain(
        "of ", finding.parameter, " backward gives ", finding.by_backward, " where finite differences give ",
        finding.by_difference,
        ": look for a backward of your own, a detach() or data_ptr() on the way to the loss, or a change in place");
  }
}

}  // namespace ddprun::check
