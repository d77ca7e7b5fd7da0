// SPDX-License-Identifier: MIT
#include <ddprun/error.h>
#include <ddprun/model.h>

#include <algorithm>
#include <utility>

namespace ddprun {
Model::Model() = default;
Model::~Model() = default;
void Model::prepare(const DataSpec&) {}
void Model::initialize(const Dataset&) {}

at::Tensor Model::forward(const at::Tensor&) {
  throw UserError("the model has several inputs: it has no forward(), but a predict() of its own");
}

at::Tensor Model::predict(const Batch& batch) { return forward(batch.input); }

void Model::train(bool on) {
  torch::nn::Module::train(on);
  for (const auto& layer : kept_in_evaluation_) layer->eval();
}

void Model::keep_in_evaluation(std::vector<std::shared_ptr<torch::nn::Module>> layers) {
  kept_in_evaluation_ = std::move(layers);
  train(is_training());
}

bool Model::is_kept_in_evaluation(const torch::nn::Module& layer) const {
  return std::ranges::any_of(kept_in_evaluation_, [&](const auto& kept) { return kept.get() == &layer; });
}

namespace {

// Whether they are classes of parts of the samples, be they as many as the predictions or not.
bool are_classes_of_parts(const at::Tensor& target) { return target.dim() > 1 && target.scalar_type() == at::kLong; }

}  // namespace

Step Model::step(const Batch& batch, const Objective& objective) {
  const auto predicted = predict(batch);
  const bool of_parts = are_of_parts(predicted, batch.target);
  const auto [prediction, target] =
      objective.takes_parts() ? Predicted{predicted, batch.target} : as_samples(predicted, batch.target);
  Step step{.loss = objective.loss(prediction, target), .metrics = objective.metrics(prediction, target)};
  if (of_parts || (objective.takes_parts() && are_classes_of_parts(batch.target)))
    step.counted = objective.counted(target);
  if (!is_training()) step.counts = objective.counts(prediction, target);
  return step;
}

}  // namespace ddprun
