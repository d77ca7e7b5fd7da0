// SPDX-License-Identifier: MIT
// What each rank measures of itself: the time of its steps, its memory, how busy its processor and GPU are.
#pragma once

#include "comm/communicator.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"

#include <ddprun/logger.h>

#include <cstdint>

namespace ddprun {

class SystemMetrics {
 public:
  explicit SystemMetrics(DeviceBackend* backend);  // null on the CPU

  // Since the last call, in which this rank made `steps` steps with these times. The rows of all ranks, on every rank.
  // Collective.
  RankTable gather(const PhaseSeconds& seconds, int64_t steps, Communicator& communicator);

 private:
  DeviceBackend* backend_;
  Stopwatch since_;  // since the last call
  double cpu_;       // seconds, at the last call
};

// The row of the split "system": means over the ranks; but the largest memory, and the slowest rank with its seconds:
// the time of a step in which it was not waiting.
NamedValues system_values(const RankTable& table);

}  // namespace ddprun
