// SPDX-License-Identifier: MIT
// Norms and limits of gradients, and a mark in them, in place and without waiting for a GPU
// (torch::nn::utils::clip_grad_norm_ reads the norm on the host).
#pragma once

#include "config/experiment.h"
#include "metrics/metric_sums.h"

#include <ddprun/optimizer.h>

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace ddprun {

// The norm of each tensor, float32 scalars on its device; one operator for all.
std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& tensors);

// The norm of all tensors together, from norms_of() them: float32 scalar on their device; 0 where there are none.
at::Tensor total_norm(const std::vector<at::Tensor>& norms);

// Scales all gradients so that their norm, over all of them together, is at most `limit`; `norm` is total_norm() of
// theirs.
void clip_norm(const std::vector<at::Tensor>& gradients, const at::Tensor& norm, double limit);

// Cuts each gradient to [-limit, limit].
void clip_value(const std::vector<at::Tensor>& gradients, double limit);

// trainer.clip_norm and trainer.clip_value; without a limit it leaves the gradients as they are.
class GradientClip {
 public:
  // `scaled`: a GradScaler has found overflows already.
  GradientClip(const TrainerConfig& config, bool scaled);

  // Clips in place, and adds the norm to the metrics where that is limited. Returns what tells whether the gradients
  // were finite before: their norms, or one over all of them where that is limited or the device is to skip the step;
  // nothing where they are scaled.
  std::vector<at::Tensor> apply(const std::vector<at::Tensor>& gradients, MetricSums& sums) const;

 private:
  double norm_, value_;  // 0: no limit
  bool scaled_, total_;
};

// Takes a loss that is NaN or infinite to all ranks without an exchange of its own: it puts NaN into one gradient
// before the gradients are averaged. A finite loss adds 0 there.
//
// Such a loss does not always have such gradients: those of clamp are 0 where its input is NaN.
class GradientMark {
 public:
  // One that is not enabled does nothing.
  GradientMark(const std::vector<NamedParameter>& parameters, bool enabled);

  // Before the backward pass of this loss. Whichever gradient comes first in it carries the mark.
  void set(const at::Tensor& loss);

 private:
  struct Mark;  // shared with the parameters' hooks, which autograd may call from a thread of its own
  std::shared_ptr<Mark> mark_;
};

}  // namespace ddprun
