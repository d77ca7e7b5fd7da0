// SPDX-License-Identifier: MIT
// The metrics of an experiment's `objective.metrics`.
#pragma once

#include <ddprun/metric.h>
#include <ddprun/options.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// Metrics of predicted classes, [B, C] scores (the highest is the guess) against [B] int64 classes.
class ClassMetrics {
 public:
  // Reads the option `metrics`: accuracy (the default), topK for any K, confusion.
  explicit ClassMetrics(Options& options);

  std::vector<MetricSum> sums(const at::Tensor& scores, const at::Tensor& target) const;
  bool wants_confusion() const { return confusion_; }

 private:
  bool accuracy_ = false, confusion_ = false;
  std::vector<int64_t> top_;
};

// Metrics of predicted values against targets of the same shape.
class ValueMetrics {
 public:
  // Reads the option `metrics`: mae (the default), mse.
  explicit ValueMetrics(Options& options);

  std::vector<MetricSum> sums(const at::Tensor& prediction, const at::Tensor& target) const;

 private:
  bool mae_ = false, mse_ = false;
};

// Returns [classes, classes] int64: how often each truth (row) was predicted as each guess (column). Both are [B]
// int64.
at::Tensor confusion_counts(const at::Tensor& guess, const at::Tensor& truth, int64_t classes);

}  // namespace ddprun
