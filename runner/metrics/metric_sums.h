// SPDX-License-Identifier: MIT
// Metrics as sums and counts over samples, added over batches and then over ranks: a mean that does not depend on how
// the samples were dealt out.
#pragma once

#include "comm/communicator.h"

#include <ddprun/model.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct MetricTotal {
  std::string name;
  double sum = 0;
  int64_t count = 0;
  bool exponential = false;
  double value() const;  // the mean, or its exponential; 0 where nothing was counted
};

class MetricSums {
 public:
  // Adds one batch of `samples`; none for a batch that only keeps the ranks in step. Does not wait for a GPU. Throws
  // UserError where a metric has a name that cannot be logged.
  void add(const Step& step, int64_t samples);

  // Adds a number of the step as a whole, a scalar equal on all ranks: a norm of gradients.
  void add_number(const std::string& name, const at::Tensor& number) {
    add({.name = name, .value = number, .count = 1});
  }

  // Adds what others have summed on this rank: those of one step.
  void add(const MetricSums& others);

  // A scalar on the model's device that is not finite where one of the losses is not; undefined where no sample has
  // counted.
  at::Tensor loss() const;

  // What the metrics on this device are computed from, in one tensor, [n] float64; undefined where there are none.
  at::Tensor packed(c10::Device device) const;

  // These metrics with copies of other values, which packed() has given for a step that is alike.
  MetricSums with(const at::Tensor& packed, c10::Device device) const;

  // Whether both have the same metrics with the same counts.
  bool alike(const MetricSums& others) const;

  // A metric with a count whose sum lies elsewhere; empty: none.
  std::string made_beside(c10::Device device) const;

  // The totals over all ranks, on every rank: "loss" first, then the model's metrics. Throws UserError where ranks
  // report other metrics than rank 0. Collective; leaves the sums as they are.
  std::vector<MetricTotal> totals(Communicator& communicator) const;

  // This rank's own sums and counts, [2, metrics] float64 on the CPU, in the order of totals().
  at::Tensor numbers() const;

  // Starts again from nothing, or from `names` with the numbers that numbers() gave.
  void reset();
  void reset(const std::vector<MetricTotal>& names, const at::Tensor& numbers);

 private:
  // A step's numbers stay as the model has made them: the first sum of two is where they become float64.
  struct Entry {
    std::string name;
    at::Tensor value;   // scalar where the model's metrics are; an entry shares it with the step that it is from
    double factor = 1;  // of the value in the sum: a mean loss has its samples here
    int64_t count = 0;
    bool exponential = false;
  };

  void add(const Entry& entry);
  std::vector<double> values() const;  // the sums
  bool knows(const std::string& name) const;

  std::vector<Entry> entries_;
};

using NamedValues = std::vector<std::pair<std::string, double>>;

// Adds more of the same to each, by name.
void add(std::vector<MetricTotal>& totals, const std::vector<MetricTotal>& more);

// The totals as numbers() gives them: for the one rank that carries on what several had summed.
at::Tensor numbers_of(const std::vector<MetricTotal>& totals);

// {"val/loss", 0.04}, ... for the split "val"; without a split the bare names.
NamedValues values_of(const std::vector<MetricTotal>& totals, const std::string& split = "");

// Throws UserError where a model's metric has a name that rows have for something else, or that no logger could write:
// an empty or very long one, one with control characters, one that is not UTF-8. Slashes, quotes, commas and every
// alphabet are fine.
void require_metric_name(const std::string& name);

}  // namespace ddprun
