// SPDX-License-Identifier: MIT
// Norms, clipping and marking of gradients, in place and without waiting for a GPU (torch::nn::utils::clip_grad_norm_
// reads the norm on the host).
#pragma once

#include "config/experiment.h"
#include "metrics/metric_sums.h"

#include <ddprun/optimizer.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace ddprun {

// Returns the norm of each tensor, float32 scalars on its device, with one operator for all.
std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& tensors);

// Returns the norm of all tensors together, from their norms_of(): float32 scalar on their device; 0 if there are none.
at::Tensor total_norm(const std::vector<at::Tensor>& norms);

// Scales all gradients so that their common norm is at most `limit`; `norm` is their total_norm().
void clip_norm(const std::vector<at::Tensor>& gradients, const at::Tensor& norm, double limit);

// Clamps each gradient to [-limit, limit].
void clip_value(const std::vector<at::Tensor>& gradients, double limit);

// Applies trainer.clip_norm and trainer.clip_value; leaves the gradients unchanged without a limit.
class GradientClip {
 public:
  // `scaled`: a GradScaler has found overflows already.
  GradientClip(const TrainerConfig& config, bool scaled);

  // Clips in place, and adds the norm to the metrics if that is limited, where it `counts`. Returns what says whether
  // the gradients were finite before: their norms, or one over all of them if that is limited or the device may have to
  // skip the step; nothing if they are scaled. `of_all`, where given, makes the norms of all gradients of those of
  // these, for that one.
  using Norms = std::vector<at::Tensor>;
  Norms apply(const std::vector<at::Tensor>& gradients, MetricSums& sums, bool counts,
              const std::function<Norms(const Norms&)>& of_all = nullptr) const;

 private:
  double norm_, value_;  // 0: no limit
  bool scaled_, total_;
};

// Shows all ranks a loss that is NaN or infinite without an exchange of its own: puts NaN into one gradient before
// the gradients are averaged. A finite loss adds 0 there.
//
// Such a loss does not always give such gradients: those of clamp are 0 if its input is NaN.
class GradientMark {
 public:
  // Constructs the mark; a disabled one does nothing.
  GradientMark(const std::vector<NamedParameter>& parameters, bool enabled);

  // Marks the backward pass of this loss, before it runs. The first gradient computed in it carries the mark.
  void set(const at::Tensor& loss);

 private:
  struct Mark;  // shared with the parameters' hooks, which autograd may call from another thread
  std::shared_ptr<Mark> mark_;
};

}  // namespace ddprun
