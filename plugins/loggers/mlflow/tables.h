// SPDX-License-Identifier: MIT
// Tables as MLflow's pages show them: JSON with `columns` and `data`, as pandas writes a frame that is split.
#pragma once

#include "json.h"

#include <ddprun/logger.h>

namespace ddprun::mlflow {

// One row for each class: its name, and how often it was taken for which.
Json table_of(const ConfusionTable& table);

// Sample, image (by its image_path), truth, guess and the guess's score, mistakes first; where there are no classes the
// true and the predicted values, or the image that the model makes of the sample (by its output_path).
Json table_of(const PredictionTable& table);

}  // namespace ddprun::mlflow
