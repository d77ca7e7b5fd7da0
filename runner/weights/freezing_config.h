// SPDX-License-Identifier: MIT
#pragma once

#include "config/experiment.h"

#include <vector>

namespace ddprun {

// pretrained.freeze and pretrained.unfreeze, as the feature freezing reads them: a build without it has nothing frozen.
struct FreezingConfig {
  struct Unfreeze {
    Interval after;  // epochs or steps of the run
    NamePatterns parameters;
  };

  NamePatterns freeze;  // not trained
  std::vector<Unfreeze> unfreeze;
};

}  // namespace ddprun
