// SPDX-License-Identifier: MIT
// Tables as Markdown, which TensorBoard's text page renders.
#pragma once

#include <ddprun/logger.h>

#include <string>

namespace ddprun::tensorboard {

// Returns sample, truth, guess and the guess's score, mistakes first, or without classes the true and the predicted
// values. Shows at most 100 rows, and says how many there are.
std::string prediction_table(const PredictionTable& table);

// Returns the counts, a row for each true class and a column for each guess, mistakes in bold; of more than 40 classes
// only their number.
std::string confusion_table(const ConfusionTable& table);

// Returns `text` verbatim in a block of its own.
std::string verbatim(const std::string& text);

}  // namespace ddprun::tensorboard
