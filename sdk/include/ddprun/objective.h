// SPDX-License-Identifier: MIT
// The loss that the experiment names under `objective:`, with the metrics under `metrics:`. The runner makes it; models
// and tests call it. Threads: any.
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

  // The mean loss over the B samples, a float32 scalar attached to the graph. `prediction` is what the model's forward
  // returned, `target` the batch's. Throws UserError where their shapes do not fit, naming both.
  virtual at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const = 0;

  // What is measured besides. The default measures nothing.
  virtual std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const;

  // [C, C] int64 on the prediction's device: how often truth (row) was taken for guess (column). Undefined, as by
  // default, where the task has no classes or nobody asked for it.
  virtual at::Tensor confusion(const at::Tensor& prediction, const at::Tensor& target) const;

  // The prediction as people read it: [B, C] probabilities of the classes, or the predicted values as they are (the
  // default).
  virtual at::Tensor scores(const at::Tensor& prediction) const;
};

}  // namespace ddprun
