// SPDX-License-Identifier: MIT
#include "features/work/work_section.h"

#include "config/feature_section.h"

namespace ddprun {
namespace {

WorkConfig read_work(Options& options) {
  return {.peak_tflops = options.get<double>(
              "peak_tflops", 0,
              "TFLOP/s that one device (on the CPU: one worker) can reach in this precision, of which mfu is "
              "the share; 0: by the GPU's name, if that is known",
              {0, 1e9})};
}

}  // namespace

FeatureSection section_of_work() { return feature_section<read_work>("trainer"); }

}  // namespace ddprun
