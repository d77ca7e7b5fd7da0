// SPDX-License-Identifier: MIT
// Tables as pictures.
#pragma once

#include "picture.h"

#include <ddprun/logger.h>

#include <optional>

namespace ddprun::tensorboard {

// Returns the table's images side by side, small ones enlarged, each framed: green if the guess is right, red if it is
// wrong, grey if that is unknown. The model's output image shares its sample's frame. Returns nothing if the samples
// are not images.
std::optional<Picture> prediction_grid(const PredictionTable& table);

// Draws a square for each pair of truth (row) and guess (column), the darker the larger its share of the row.
Picture confusion_picture(const ConfusionTable& table);

}  // namespace ddprun::tensorboard
