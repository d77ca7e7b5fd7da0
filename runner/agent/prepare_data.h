// SPDX-License-Identifier: MIT
// The launcher's part of a dataset: what has to happen once on each machine before workers open it.
#pragma once

#include "agent/checked_experiment.h"

namespace ddprun {

// Shows how far it is on standard error: a line that redraws itself on a terminal, a line for each tenth where there is
// none. Throws UserError with the dataset's place in the experiment, whatever the plugin threw.
void prepare_data(const CheckedExperiment& checked);

}  // namespace ddprun
