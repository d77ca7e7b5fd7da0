// SPDX-License-Identifier: MIT
// What a training step gives, and what is asked of a model's loss and parameters.
#pragma once

#include "metrics/metric_sums.h"
#include "step/cuda_graphs.h"
#include "step/grad_scaler.h"
#include "step/gradients.h"

#include <memory>
#include <string>
#include <vector>

namespace ddprun {

// The results of one step, on their way to the host.
class StepOutcome {
 public:
  StepOutcome() = default;
  StepOutcome(const StepResults& results, c10::Device device);

  // Returns whether the loss of this rank is NaN or infinite or, without a scaler, the gradients are; a scaler handles
  // those itself. It is equal on all ranks with trainer.on_nonfinite skip and no scaler. Waits for the step.
  bool nonfinite() const { return !numbers_->all_finite(results_.checked); }

  bool is_there() const { return numbers_->are_there(); }  // whether nothing here waits
  MetricSums sums() const;                                 // with scalars on the host; waits for the step

  // Returns the mean loss of the samples that count, a float32 scalar on the model's device; undefined if there are
  // none. Does not wait. Only before the next step.
  at::Tensor mean_loss() const;

 private:
  StepResults results_;
  c10::Device device_{at::kCPU};
  std::shared_ptr<DeviceNumbers> numbers_;
};

// Throws PluginMistake unless the loss is a number that backward can start from.
void require_loss(const at::Tensor& loss);

// Return the parameters that a backward pass has not reached, and the message about them.
std::vector<std::string> without_gradient(const std::vector<NamedParameter>& parameters);
std::string unused_text(const std::vector<std::string>& names);

}  // namespace ddprun
