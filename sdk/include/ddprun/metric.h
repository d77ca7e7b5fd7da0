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
  at::Tensor counted = {};   // takes the place of `count` if defined: int64 scalar, where only the device knows it
};

// Counts for metrics that are not a mean over samples: a confusion matrix, histograms of scores. The runner adds those
// of one name over batches and ranks; Objective::summary makes the metrics of the sums. As with MetricSum each step
// returns new tensors.
//
// Either all calls count the same things, and `counts` has one shape; or `keys` says what is counted, and there may be
// more of them in one call than in the next, or none. The runner then adds the counts of equal keys. Keys are places in
// a histogram with very narrow bins: where there are more than 4,194,304 different ones, the runner joins its bins in
// pairs, an even one with the next, and again until there are no more than that. The result does not depend on how the
// samples were distributed.
struct MetricCounts {
  std::string name;      // the same names in the same order from every call
  at::Tensor counts;     // int64 or float64, on the model's device; with keys [n] int64
  at::Tensor keys = {};  // [n] int64, >= 0, in any order; in totals ascending, each key once
  int64_t joined = 0;    // in totals: how often bins were joined, so that a key has lost this many of its low bits
};

// The name of counts that are a confusion matrix, [C, C] int64: how often truth (row) was taken for guess (column).
// Loggers get them as a table.
inline constexpr const char* kConfusion = "confusion";

}  // namespace ddprun
