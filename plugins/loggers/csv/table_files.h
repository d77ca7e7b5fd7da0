// SPDX-License-Identifier: MIT
// Confusion matrices and predictions as CSV files. A file is replaced whole; UserError where it cannot be written.
#pragma once

#include <ddprun/logger.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::csv {

std::string number(double value);  // reads back exactly; nan, inf, -inf

// "truth,cat,dog" over a row for each true class, with how often it was taken for each.
void write_confusion(const std::filesystem::path& file, const ConfusionTable& table);

// "id,truth,guess,score_cat,score_dog" over a row for each sample; without classes "id,truth_0,...,prediction_0,...".
void write_predictions(const std::filesystem::path& file, const PredictionTable& table);

}  // namespace ddprun::csv
