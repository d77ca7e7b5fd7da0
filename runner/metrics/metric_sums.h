// SPDX-License-Identifier: MIT
// Keeps metrics as sums and counts over samples, added over batches and then over ranks without rounding: a mean does
// not depend on how the samples were distributed, nor on the order in which batches are added.
#pragma once

#include "comm/communicator.h"
#include "metrics/exact_sum.h"

#include <ddprun/model.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct MetricTotal {
  std::string name;
  double sum = 0;
  int64_t count = 0;
  bool exponential = false;
  double value() const;  // the mean, or its exponential; NaN if nothing was counted
};

// A total before it is rounded: what a checkpoint keeps of sums that are not read yet.
struct ExactTotal {
  std::string name;
  ExactSum sum = {};
  int64_t count = 0;
  bool exponential = false;

  MetricTotal rounded() const { return {name, sum.value(), count, exponential}; }
};

// Returns the number, or 0 where nothing counts: a mean of nothing is NaN. Does not wait for a GPU. Either may be
// undefined, and the number is then returned.
at::Tensor zero_if_none_counts(const at::Tensor& number, const at::Tensor& counted);

class MetricSums {
 public:
  // Adds one batch of `samples`; none for a batch that only keeps the ranks in step. Does not wait for a GPU. Throws
  // UserError if the name of a metric cannot be logged.
  void add(const Step& step, int64_t samples);

  // Adds a number of the whole step, a scalar that is equal on all ranks, such as a norm of gradients: on one of them
  // it `counts`.
  void add_number(const std::string& name, const at::Tensor& number, bool counts = true) {
    add(name, false, {.value = number, .count = counts ? 1 : 0});
  }

  // Adds sums of one step from the same rank. Waits for a GPU that has some of them.
  void add(const MetricSums& others);

  // Reads the numbers that are added but still lie where the model made them. Waits for a GPU that has some of them.
  void read();

  // Returns a scalar on the model's device that is not finite if one of the losses is not; undefined if no sample was
  // counted.
  at::Tensor loss() const;

  // Returns the mean loss of the samples that count, a scalar on the model's device; undefined if there are none.
  at::Tensor mean_loss() const;

  // Returns the scalars that are on this device.
  std::vector<at::Tensor> scalars(c10::Device device) const;

  // Returns these metrics with others in place of scalars(device): [n] float64, whose memory they share.
  MetricSums with(const at::Tensor& scalars, c10::Device device) const;

  // Returns whether both have the same metrics with the same counts.
  bool alike(const MetricSums& others) const;

  // Returns a counted metric whose sum lies on another device; empty: none.
  std::string made_beside(c10::Device device) const;

  // Return the totals over all ranks, on every rank: "loss" first, then the model's metrics. Throw UserError if ranks
  // report other metrics than rank 0. Collective; they leave the sums as they are.
  std::vector<MetricTotal> totals(Communicator& communicator) const;
  std::vector<ExactTotal> exact_totals(Communicator& communicator) const;

  // Returns this rank's sums and counts, [2, metrics] float64 on the CPU, in the order of totals().
  at::Tensor numbers() const;

  // Starts from nothing, or from what exact_totals() gave.
  void reset(const std::vector<ExactTotal>& totals = {});

 private:
  // What one batch adds, as the model made it.
  struct Term {
    at::Tensor value;   // a scalar on the model's device, shared with the step
    double factor = 1;  // of the value in the sum: the samples, for a mean loss
    int64_t count = 0;
    at::Tensor counted = {};  // in place of `count`, if only the device knows it: a scalar there
    bool is_mean = false;     // of what `counted` counts: the sum is the value times that

    bool is_empty() const { return count == 0 && !counted.defined(); }
  };
  struct Entry {
    ExactTotal total;  // of what is read
    std::vector<Term> terms = {};
  };

  void add(const std::string& name, bool exponential, Term term);
  Entry& entry(const std::string& name, bool exponential);
  std::vector<at::Tensor*> places(c10::Device device);
  std::optional<c10::Device> other_than_cpu() const;  // of what is not read; all of it lies on one, or on the CPU
  bool knows(const std::string& name) const;

  std::vector<Entry> entries_;
};

using NamedValues = std::vector<std::pair<std::string, double>>;

// Adds the totals to those of the same names.
void add(std::vector<MetricTotal>& totals, const std::vector<MetricTotal>& more);

// Returns {"val/loss", 0.04}, ... for the split "val"; without a split the bare names.
NamedValues values_of(const std::vector<MetricTotal>& totals, const std::string& split = "");

// Throws UserError if the name of a model's metric is reserved or cannot be written by a logger: empty or very long,
// with control characters, or not UTF-8. Slashes, quotes, commas and every alphabet are fine. The error begins with
// `whose`.
void require_metric_name(const std::string& name, const std::string& whose = "model: a metric of step()");

}  // namespace ddprun
