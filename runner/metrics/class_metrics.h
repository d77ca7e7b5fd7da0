// SPDX-License-Identifier: MIT
// The metrics of `objective.metrics` for predicted classes and labels.
//
// Those that are not means over samples follow from counts of a whole evaluation, so that they are the same numbers at
// any number of ranks. A quotient of 0 and 0 is 0. Where a class is neither in the targets nor among the predictions,
// the means over classes leave it out, as torchmetrics does; means over labels leave none out.
#pragma once

#include "metrics/metric_sums.h"
#include "metrics/ranking.h"

#include <ddprun/metric.h>
#include <ddprun/objective.h>
#include <ddprun/options.h>

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// How often each class or label is in the targets, among the predictions, and in both; of how many samples.
struct ClassCounts {
  std::vector<int64_t> truth, guess, hits;
  int64_t samples = 0;
  bool labels = false;  // a sample has any number of them; of classes it has one
};

struct ClassMetric;  // a row of the table of metrics

class ClassMetrics {
 public:
  // A sample has one of several classes, or any of several labels. Of one label, which is a binary task, the metrics
  // are those of the samples that have it.
  enum class Of { kClasses, kLabels };

  // Reads the option `metrics` of the objective of this name; a wrong one is noted in `options`.
  ClassMetrics(const char* objective, Of of, Options& options);

  void set_names(std::vector<std::string> names) { names_ = std::move(names); }  // of the classes; else numbers

  // Returns accuracy and topK of [N, C] scores, the highest is the guess, against [N] int64 classes; a row with a NaN
  // is wrong. `counted` says how many of the classes are not kIgnoredClass, an int64 scalar; undefined: all.
  std::vector<MetricSum> sums(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& counted) const;

  // Returns the counts for summary(), of [N, C] predictions against [N] int64 classes, kIgnoredClass for a sample that
  // does not count; or of [N, L] logits against [N, L] truth, 0 or 1. The objective reads the predictions as
  // probabilities.
  std::vector<MetricCounts> counts(const Objective& objective, const at::Tensor& prediction,
                                   const at::Tensor& target) const;

  // Returns the metrics of the counts of a whole evaluation, in the order in which they were asked for. All are NaN,
  // and a warning says so, if a prediction was: it has no order.
  NamedValues summary(const std::vector<MetricCounts>& totals) const;

  bool wants_confusion() const { return confusion_; }

 private:
  std::vector<std::string> names_of(size_t classes) const;
  void warn_of_nan(int64_t predictions, int64_t all) const;
  void warn_of_errors(const std::vector<Ranking>& rankings) const;

  Of of_;
  bool accuracy_ = false, confusion_ = false;
  std::vector<int64_t> top_;
  std::vector<const ClassMetric*> wanted_;
  std::vector<std::string> names_;
  mutable std::atomic<bool> warned_ = false, has_warned_of_errors_ = false;
};

// Returns whether some objectives of classes have this metric.
bool is_class_metric(const std::string& name);

// Returns [C, C] int64: how often each truth (row) was predicted as each guess (column), of [N, C] predictions against
// [N] int64 classes. A truth of kIgnoredClass does not count, nor does a prediction with a NaN.
at::Tensor confusion_counts(const at::Tensor& prediction, const at::Tensor& truth);

}  // namespace ddprun
