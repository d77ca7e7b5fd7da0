// SPDX-License-Identifier: MIT
// What a batch contributes to metrics.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace ddprun {

// A metric as its sum and count over samples. The runner adds both over batches and ranks and divides once, so the mean
// does not depend on how the samples were distributed. It adds them later: each step must return a new tensor and leave
// this one as it is.
struct MetricSum {
  std::string name;  // "accuracy"; the same names in the same order from every call
  at::Tensor sum;    // scalar, any dtype, detached, on the model's device: reading it here would stall a GPU
  int64_t count = 0;
  bool exponential = false;  // shown as exp(sum / count): perplexity is computed from summed cross entropies
};

// Counts for metrics that are not a mean over samples: a confusion matrix, histograms of scores. The runner adds those
// of one name over batches and ranks; Objective::summary makes the metrics of the sums.
struct MetricCounts {
  std::string name;   // the same names in the same order from every call
  at::Tensor counts;  // int64 or float64, of the same shape from every call, on the model's device
};

// The name of counts that are a confusion matrix, [C, C] int64: how often truth (row) was taken for guess (column).
// Loggers get them as a table.
inline constexpr const char* kConfusion = "confusion";

}  // namespace ddprun
