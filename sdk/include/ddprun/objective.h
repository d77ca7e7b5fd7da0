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

class DDPRUN_API Objective {
 public:
  virtual ~Objective();

  // Called once, before the other methods, when the data are known; not where only options are checked. The default
  // does nothing.
  virtual void prepare(const DataSpec& data);

  // Returns the mean loss over the targets that count, a float32 scalar attached to the graph; 0 if none does.
  // `prediction` is what the model's forward returned, `target` that of the batch. Throws UserError if their shapes do
  // not fit, naming both.
  virtual at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const = 0;

  // Returns how many targets loss() is the mean over, int64 scalar on their device, if not all of them count: those of
  // class -100 do not. The default returns undefined: all B do.
  virtual at::Tensor counted(const at::Tensor& target) const;

  // Returns true if loss() takes images of classes as they are, [B, C, H, W] and [B, H, W]. By default it sees them as
  // [B * H * W, C] and [B * H * W].
  virtual bool takes_pixels() const;

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
