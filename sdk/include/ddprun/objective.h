// SPDX-License-Identifier: MIT
// The loss that the experiment names under `objective:`, with its metrics, `objective.metrics`. The runner makes it;
// models and tests call it, from any thread.
//
// Shapes: B = samples in this rank's batch, C = number of classes.
#pragma once

#include <ddprun/api.h>
#include <ddprun/metric.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun {

class DDPRUN_API Objective {
 public:
  virtual ~Objective();

  // Returns the mean loss over the B samples, a float32 scalar attached to the graph. `prediction` is what the model's
  // forward returned, `target` that of the batch. Throws UserError if their shapes do not fit, naming both.
  virtual at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const = 0;

  // Returns the other metrics. The default measures nothing.
  virtual std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const;

  // Returns [C, C] int64 on the prediction's device: how often truth (row) was taken for guess (column). Undefined,
  // which is the default, if the task has no classes or nobody asked for it.
  virtual at::Tensor confusion(const at::Tensor& prediction, const at::Tensor& target) const;

  // Returns the prediction in readable form: [B, C] class probabilities, or (by default) the predicted values as they
  // are.
  virtual at::Tensor scores(const at::Tensor& prediction) const;
};

}  // namespace ddprun
