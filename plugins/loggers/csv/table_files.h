// SPDX-License-Identifier: MIT
// Confusion matrices and predictions as CSV files. A file is replaced whole; throws UserError if it cannot be written.
#pragma once

#include <ddprun/logger.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::csv {

std::string number(double value);  // the shortest form that reads back exactly; nan, inf, -inf

// Writes "truth,cat,dog" over one row per true class, with how often it was taken for each.
void write_confusion(const std::filesystem::path& file, const ConfusionTable& table);

// Writes "id,image,guess,truth,score_cat,score_dog" over one row per sample, or without classes
// "id,image,truth_0,...,prediction_0,...". If a sample is an image, `image` names the file that the jsonl logger
// writes.
void write_predictions(const std::filesystem::path& file, const PredictionTable& table);

}  // namespace ddprun::csv
