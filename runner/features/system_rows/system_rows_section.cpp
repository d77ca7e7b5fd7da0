// SPDX-License-Identifier: MIT
#include "features/system_rows/system_rows_section.h"

#include "config/feature_section.h"
#include "config/sections.h"

namespace ddprun {
namespace {

SystemRowsConfig read_system_rows(Options& options) {
  return {.seconds = options.get<double>(
              "system_metrics_seconds", SystemRowsConfig().seconds,
              "seconds between rows of the split system: times of a step's phases, memory, load; 0: none",
              {0, kLargest})};
}

}  // namespace

FeatureSection section_of_system_rows() { return feature_section<read_system_rows>("trainer"); }

}  // namespace ddprun
