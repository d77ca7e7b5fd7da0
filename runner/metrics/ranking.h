// SPDX-License-Identifier: MIT
// How well scores rank the samples that have a label before those that have not: AUROC and average precision, exact
// over batches and ranks. Fawcett, "An introduction to ROC analysis" (2006).
#pragma once

#include <ddprun/metric.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// One label's scores against its truth. Equal scores are ties: a pair of them is ranked half right.
struct Ranking {
  int64_t positives = 0, negatives = 0;
  // Both are 0 for a label that no sample has; auroc also for one that all have.
  double auroc = 0, average_precision = 0;
  // What they may be off by: 0, unless bins were joined.
  double auroc_error = 0, average_precision_error = 0;
};

// Returns the counts, by key, of [N, L] scores >= 0 as float32, and of [N, L] bool truth. A key is a label, whether the
// sample has it, and the bits of the score, which are ordered as the scores are.
MetricCounts score_counts(const at::Tensor& scores, const at::Tensor& truth);

// Returns a ranking for each of the labels, from the sum of those counts.
std::vector<Ranking> rankings(const MetricCounts& total, int64_t labels);

}  // namespace ddprun
