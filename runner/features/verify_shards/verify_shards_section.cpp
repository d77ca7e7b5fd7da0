// SPDX-License-Identifier: MIT
#include "features/verify_shards/verify_shards_section.h"

#include "config/feature_section.h"

namespace ddprun {
namespace {

VerifyShardsConfig read_verify_shards(Options& options) {
  return {.on = options.get<bool>("verify_shards", false,
                                  "check at each epoch's end that the workers' samples cover it "
                                  "exactly once, and that all workers load the same data")};
}

}  // namespace

FeatureSection section_of_verify_shards() { return feature_section<read_verify_shards>("trainer"); }

}  // namespace ddprun
