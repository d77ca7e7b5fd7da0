// SPDX-License-Identifier: MIT
// Confusion matrices and predictions as CSV files. A file is replaced whole; UserError where it cannot be written.
#pragma once

#include <ddprun/logger.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::csv {

std::string number(double value);  // as short as reads back exactly; nan, inf, -inf

// "truth,cat,dog" over a row for each true class, with how often it was taken for each.
void write_confusion(const std::filesystem::path& file, const ConfusionTable& table);

// "id,image,guess,truth,score_cat,score_dog" over a row for each sample; without classes
// "id,image,truth_0,...,prediction_0,...". Of a sample that is a picture `image` names the file that the jsonl logger
// writes.
void write_predictions(const std::filesystem::path& file, const PredictionTable& table);

}  // namespace ddprun::csv
