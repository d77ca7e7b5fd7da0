// SPDX-License-Identifier: MIT
// Tables as pictures.
#pragma once

#include "picture.h"

#include <ddprun/logger.h>

#include <optional>

namespace ddprun::tensorboard {

// The table's images side by side, small ones enlarged, each framed: green where the guess is right, red where it is
// wrong, grey where nobody can say. An image that the model makes of one is beside it in the same frame. Nothing where
// the samples are no images.
std::optional<Picture> prediction_grid(const PredictionTable& table);

// A square for each pair of truth (row) and guess (column), the darker the larger its share of the row.
Picture confusion_picture(const ConfusionTable& table);

}  // namespace ddprun::tensorboard
