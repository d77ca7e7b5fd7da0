// SPDX-License-Identifier: MIT
// Measures each rank: the time of its steps, its memory, the load of its processor and GPU.
#pragma once

#include "base/clock.h"
#include "comm/communicator.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

class SystemMetrics {
 public:
  explicit SystemMetrics(DeviceBackend* backend);  // null on the CPU

  // Returns the row of the split "system" on every rank, for the time since the last call, in which this rank made
  // `steps` steps with these times: means over the ranks, but the largest memory, and the slowest rank with its
  // seconds, the time of a step in which it was not waiting. Collective.
  NamedValues row(const PhaseSeconds& seconds, int64_t steps, Communicator& communicator);

  // Returns the same of each rank, by rank, over all rows so far: means over its steps, of memory the most.
  std::vector<NamedValues> of_ranks() const;

 private:
  void add(const at::Tensor& all, int64_t steps);

  DeviceBackend* backend_;
  at::Tensor totals_;  // of ranks and columns; undefined before the first row
  int64_t steps_ = 0;  // in them
  Stopwatch since_;    // since the last call
  double cpu_;         // seconds, at the last call
};

}  // namespace ddprun
