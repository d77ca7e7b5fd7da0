// SPDX-License-Identifier: MIT
#include <ddprun/model.h>

namespace ddprun {

Model::Model() = default;
Model::~Model() = default;
void Model::prepare(const DataSpec&) {}
void Model::initialize(const Dataset&) {}

Step Model::step(const Batch& batch, const Objective& objective) {
  const auto prediction = forward(batch.input);
  return {.loss = objective.loss(prediction, batch.target),
          .metrics = objective.metrics(prediction, batch.target),
          .confusion = objective.confusion(prediction, batch.target)};
}

}  // namespace ddprun
