// SPDX-License-Identifier: MIT
#include <ddprun/error.h>
#include <ddprun/model.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

// Returns whether [B, T, C] predictions stand against one class for each of the T symbols.
bool are_of_sequences(const at::Tensor& prediction, const at::Tensor& target) {
  return prediction.dim() == 3 && target.dim() == 2 && target.scalar_type() == at::kLong &&
         prediction.sizes().slice(0, 2) == target.sizes();
}

// Returns whether [B, C, H, W] predictions stand against one class for each pixel.
bool are_of_pixels(const at::Tensor& prediction, const at::Tensor& target) {
  return prediction.dim() == 4 && target.dim() == 3 && target.scalar_type() == at::kLong &&
         prediction.size(0) == target.size(0) && prediction.sizes().slice(2) == target.sizes().slice(1);
}

}  // namespace

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

Step Model::step(const Batch& batch, const Objective& objective) {
  auto prediction = predict(batch);
  auto target = batch.target;
  if (are_of_sequences(prediction, target)) {
    prediction = prediction.flatten(0, 1);
    target = target.flatten();
  } else if (are_of_pixels(prediction, target)) {
    prediction = prediction.movedim(1, -1).flatten(0, 2);
    target = target.flatten();
  }
  Step step{.loss = objective.loss(prediction, target), .metrics = objective.metrics(prediction, target)};
  if (!is_training()) step.counts = objective.counts(prediction, target);
  return step;
}

}  // namespace ddprun
