// SPDX-License-Identifier: MIT
#pragma once

#include "message.h"

namespace ddprun::tensorboard {

// Returns what the page of custom scalars draws together (tensorboard/plugins/custom_scalar/layout.proto): the same
// metric of all splits, the phases of a step.
Message layout();

}  // namespace ddprun::tensorboard
