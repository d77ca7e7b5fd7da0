// SPDX-License-Identifier: MIT
#include <ddprun/model.h>

#include <ATen/ATen.h>

namespace ddprun {

Objective::~Objective() = default;
Model::Model() = default;
Model::~Model() = default;
void Model::prepare(const DataSpec&) {}

Step Model::step(const Batch& batch, const Objective& objective) {
  const auto prediction = forward(batch.input);
  Step step{.loss = objective.loss(prediction, batch.target)};
  const bool classes = prediction.dim() == 2 && batch.target.dim() == 1 && batch.target.scalar_type() == at::kLong;
  if (classes) {
    const auto correct = prediction.detach().argmax(1).eq(batch.target).sum();
    step.metrics.push_back({.name = "accuracy", .sum = correct, .count = batch.size()});
  }
  return step;
}

}  // namespace ddprun
