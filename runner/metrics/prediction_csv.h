// SPDX-License-Identifier: MIT
// Predictions as lines of CSV: index,truth,guess,score_<class> ...; without classes index,truth_0 ...,prediction_0 ...
#pragma once

#include "metrics/predictions.h"

#include <ddprun/batch.h>

#include <string>

namespace ddprun {

std::string prediction_head(const PredictedBatch& batch, const DataSpec& spec);  // one line

// A line for each sample. Truth and guess are the classes' names; numbers read back as the float32 they are.
std::string prediction_lines(const PredictedBatch& batch, const DataSpec& spec);

}  // namespace ddprun
