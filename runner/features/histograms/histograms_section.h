// SPDX-License-Identifier: MIT
#pragma once

#include "config/experiment.h"

#include <cstdint>

namespace ddprun {

// histograms: of weights and gradients, for the loggers; none without an interval.
struct HistogramsConfig {
  Interval every;
  int64_t bins = 64;
};

}  // namespace ddprun
