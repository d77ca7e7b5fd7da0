// SPDX-License-Identifier: MIT
// Tables as Markdown, which TensorBoard's text page draws.
#pragma once

#include <ddprun/logger.h>

#include <string>

namespace ddprun::tensorboard {

// Sample, truth, guess and the guess's score, mistakes first; where there are no classes the true and the predicted
// values. At most 100 rows, and how many there are.
std::string prediction_table(const PredictionTable& table);

// `text` in a block of its own, as it is.
std::string verbatim(const std::string& text);

}  // namespace ddprun::tensorboard
