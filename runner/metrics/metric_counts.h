// SPDX-License-Identifier: MIT
// Adds the counts of an evaluation over batches and then over ranks, exactly: integers as such, float64 in sums that
// are rounded once, so that the result does not depend on how batches were distributed.
#pragma once

#include "comm/communicator.h"
#include "metrics/exact_sum.h"

#include <ddprun/metric.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// Counts by key, added up in pieces: keys of a batch wait until there are enough to be worth sorting.
class KeyedCounts {
 public:
  explicit KeyedCounts(int64_t most_keys) : most_keys_(most_keys) {}

  void add(MetricCounts part);

  // Returns one count for each key, in ascending order, with as few bins joined as `most_keys` allows.
  MetricCounts merged() const;

 private:
  int64_t most_keys_;
  int64_t waiting_ = 0;  // keys of the parts since the last merge
  std::vector<MetricCounts> parts_;
};

// Counts in float64, of one shape: those of batches wait on their device until there are enough to be worth a copy.
class RealCounts {
 public:
  void add(const at::Tensor& counts);

  std::vector<ExactSum> sums() const;

 private:
  void add_waiting(std::vector<ExactSum>& sums) const;

  std::vector<at::Tensor> waiting_;
  std::vector<ExactSum> sums_;  // one for each number; empty: none was added yet
};

class CountSums {
 public:
  static constexpr int64_t kMostKeys = int64_t{1} << 22;

  explicit CountSums(int64_t most_keys = kMostKeys) : most_keys_(most_keys) {}

  // Adds the counts of one batch, on the device of the first one's. Throws UserError if they are malformed, or others
  // than before: other names, types or shapes.
  void add(const std::vector<MetricCounts>& counts);

  // Returns this rank's sums, on their device. Waits for a GPU if there are any in float64.
  std::vector<MetricCounts> sums() const;

  // Returns the sums over all ranks, on every rank, on the CPU. A rank without a batch counts nothing, and need not
  // know what there is to count. Throws UserError if ranks count other things than rank 0. Collective.
  std::vector<MetricCounts> totals(Communicator& communicator) const;

 private:
  enum class Kind { kInteger, kReal, kKeyed };

  struct Entry {
    std::string description;  // name, type and shape
    Kind kind;
    MetricCounts sum;   // of kInteger; of kReal its name and the shape of its counts
    RealCounts real;    // of kReal
    KeyedCounts keyed;  // of kKeyed
  };

  static Kind kind_of(const MetricCounts& one);

  std::string description() const;

  int64_t most_keys_;
  bool began_ = false;
  std::vector<Entry> entries_;
};

}  // namespace ddprun
