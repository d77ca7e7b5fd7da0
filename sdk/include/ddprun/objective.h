// SPDX-License-Identifier: MIT
// The loss that the experiment names under `objective:`. The runner makes it; models and tests call it.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

namespace ddprun {

class DDPRUN_API Objective {
 public:
  virtual ~Objective();

  // The mean loss over the B samples, a float32 scalar attached to the graph. `prediction` is what the model's forward
  // returned, `target` the batch's. Throws UserError where their shapes do not fit, naming both.
  virtual at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const = 0;
};

}  // namespace ddprun
