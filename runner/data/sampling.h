// SPDX-License-Identifier: MIT
// trainer.sampling: which training samples an epoch draws.
#pragma once

#include "config/experiment.h"
#include "data/sample_order.h"

#include <ddprun/dataset.h>

#include <cstdint>

namespace ddprun {

// Returns the order of the run's epochs. Reads the classes or the file of weights that trainer.sampling asks for.
// Throws UserError with the place in the experiment, and the file, if the data show no classes without being read or
// lack one, or if the file has not one number for each sample, one that is negative or not finite, or none above 0.
EpochOrder training_order(const Dataset& dataset, const TrainerConfig& config, uint64_t seed);

}  // namespace ddprun
