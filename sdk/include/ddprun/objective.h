// SPDX-License-Identifier: MIT
// The loss that the experiment names under `objective:`, with its metrics. A plugin is constructed from the options of
// that section; models and tests call it, from any thread.
//
// Shapes: B = samples in this rank's batch, C = number of classes.
#pragma once

#include <ddprun/api.h>
#include <ddprun/batch.h>
#include <ddprun/metric.h>
#include <ddprun/plugin.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// Predictions with their targets.
struct Predicted {
  at::Tensor prediction, target;
};

// Returns whether the targets are classes of parts of the samples: of symbols, [B, T] int64 for predictions [B, T, C],
// of pixels, [B, H, W] int64 for [B, C, H, W], or of voxels, [B, D, H, W] for [B, C, D, H, W].
DDPRUN_API bool are_of_parts(const at::Tensor& prediction, const at::Tensor& target);

// Returns those of parts in the form of samples, [N, C] and [N]; others as they are.
DDPRUN_API Predicted as_samples(const at::Tensor& prediction, const at::Tensor& target);

// A class that does not count: the target of such a symbol or pixel adds nothing to loss, gradient and metrics.
inline constexpr int64_t kIgnoredClass = -100;

// Returns how many of the targets are not kIgnoredClass, int64 scalar on their device.
DDPRUN_API at::Tensor count_classes(const at::Tensor& target);

// Returns how many of the [N, C] scores are greatest for their target, [N] int64; a row with a NaN is not. Returns an
// int64 scalar on their device.
DDPRUN_API at::Tensor count_correct(const at::Tensor& scores, const at::Tensor& target);

// Returns the mean cross-entropy of the targets that are not kIgnoredClass, a scalar of float32 at least; NaN if there
// are none, with a gradient of 0. Takes [N, C] logits and [N] int64 classes, or [B, C, ...] and [B, ...]. A share of
// each target, `label_smoothing`, is spread over all classes. Of [N, C] logits that are many, 16 million, it keeps
// nothing else for backward, which makes log-probabilities again, some rows at a time: the bits are those of LibTorch's
// operations, which it calls if fused_layers() is false.
DDPRUN_API at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target, double label_smoothing = 0);

class DDPRUN_API Objective {
 public:
  virtual ~Objective();

  // Called once, before the other methods, when the data are known; not where only options are checked. The default
  // does nothing.
  virtual void prepare(const DataSpec& data);

  // Returns the mean loss over the targets that count, a float32 scalar attached to the graph. `prediction` is what the
  // model's forward returned, `target` that of the batch. Throws UserError if their shapes do not fit, naming both.
  virtual at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const = 0;

  // Returns how many targets loss() is the mean over, int64 scalar on their device, where that may be fewer than there
  // are. The default returns undefined: all of them count.
  virtual at::Tensor counted(const at::Tensor& target) const;

  // Returns true if loss(), metrics() and counts() take symbols, pixels and voxels as they are, [B, T, C] and [B, T],
  // [B, C, H, W] and [B, H, W]. By default the model's step() passes them as_samples().
  virtual bool takes_parts() const;

  // Returns the other metrics that are means over samples. The default measures nothing.
  virtual std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const;

  // Returns the counts that summary() needs, and the confusion matrix if it is to be shown. Called in evaluation only.
  // The default counts nothing.
  virtual std::vector<MetricCounts> counts(const at::Tensor& prediction, const at::Tensor& target) const;

  // Returns the metrics that follow from the counts of a whole evaluation, such as F1: name and value, the same names
  // every time. `totals` are counts(), added over all batches and ranks, on the CPU. The default returns none.
  virtual std::vector<std::pair<std::string, double>> summary(const std::vector<MetricCounts>& totals) const;

  // Returns the prediction in readable form: [B, C] class probabilities, or (by default) the predicted values as they
  // are.
  virtual at::Tensor scores(const at::Tensor& prediction) const;
};

}  // namespace ddprun

// Registers the class as an objective plugin; `ddprun plugins` shows help_text. Use once per library, outside any
// namespace.
#define DDPRUN_OBJECTIVE(plugin_class, plugin_name, help_text)                                              \
  DDPRUN_REGISTER_PLUGIN((::ddprun::detail::create_plugin<::ddprun::Objective, plugin_class>), "objective", \
                         plugin_name, help_text)
