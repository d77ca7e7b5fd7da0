// SPDX-License-Identifier: MIT
// The features of this build, in the order of their list in list.cmake.
#pragma once

#include "train/feature.h"

namespace ddprun {

// Makes those that the experiment uses. The arguments outlive them. Throws UserError.
Features make_features(const Context& context, const TrainPlan& plan);

}  // namespace ddprun
