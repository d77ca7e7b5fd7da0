// SPDX-License-Identifier: MIT
// The option `objective.metrics`, and the metrics for values. Those for classes are in class_metrics.h.
#pragma once

#include <ddprun/metric.h>
#include <ddprun/options.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Metrics of predicted values against targets of the same shape.
class ValueMetrics {
 public:
  // Reads the option `metrics` of the objective of this name: mae (the default), mse.
  ValueMetrics(const char* objective, Options& options);

  std::vector<MetricSum> sums(const at::Tensor& prediction, const at::Tensor& target) const;

 private:
  bool mae_ = false, mse_ = false;
};

// Returns whether it is a metric of values.
bool is_value_metric(const std::string& name);

// Returns the option `metrics`, each name once.
std::vector<std::string> metric_choices(Options& options, std::vector<std::string> fallback, std::string_view help);

// Notes that the objective has no such metric: with the nearest one that it has or, if other objectives have it, with
// what it needs.
void reject_metric(Options& options, const char* objective, const std::string& name,
                   const std::vector<std::string>& known);

}  // namespace ddprun
