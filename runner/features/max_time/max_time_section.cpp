// SPDX-License-Identifier: MIT
#include "features/max_time/max_time_section.h"

#include "config/feature_section.h"
#include "config/interval.h"

namespace ddprun {
namespace {

MaxTimeConfig read_max_time(Options& options) {
  return {.seconds = read_duration(options, "max_time",
                                   "limit of training time, such as 90min, 2h or 01:30:00; the test follows")};
}

}  // namespace

FeatureSection section_of_max_time() { return feature_section<read_max_time>("trainer"); }

}  // namespace ddprun
