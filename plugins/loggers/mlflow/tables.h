// SPDX-License-Identifier: MIT
// Tables in the form that MLflow's pages show: JSON with `columns` and `data`, pandas' orient="split".
#pragma once

#include "json.h"

#include <ddprun/logger.h>

namespace ddprun::mlflow {

// Returns one row per class: its name, and how often it was taken for each class.
Json table_of(const ConfusionTable& table);

// Returns sample, image (by its image_path), truth, guess and the guess's score, mistakes first. Without classes, the
// true and the predicted values, or the model's output image (by its output_path), take their place.
Json table_of(const PredictionTable& table);

}  // namespace ddprun::mlflow
