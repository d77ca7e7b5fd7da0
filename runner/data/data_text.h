// SPDX-License-Identifier: MIT
// What `ddprun data` shows of a survey, in lines of 80 columns and as the tables of its page.
#pragma once

#include "data/data_survey.h"

#include <string>
#include <vector>

namespace ddprun {

std::string data_text(const DataSurvey& survey);

// Rows of cells below a head.
struct TextTable {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;

  std::string text() const;  // the first column is aligned left, the others right
};

// Return the range of the numbers of each split, and how many samples of each class it has: no rows, if the task has no
// classes.
TextTable values_table(const DataSurvey& survey);
TextTable classes_table(const DataSurvey& survey);

// Returns "The values are those of 64 of 1,000 of train, spread evenly."; empty if the tables cover all samples.
std::string coverage_text(const DataSurvey& survey);

// Returns "732 to 1,300 in train, 50 in val", of a class; empty without classes.
std::string counts_text(const DataSurvey& survey);

// Returns a sentence about what training does to the samples.
std::string augmentation_text(const AugmentationSurvey& found);

// Returns what looks like a mistake, a sentence each: classes without a training sample, numbers that are not finite,
// constant inputs.
std::vector<std::string> doubts(const DataSurvey& survey);

// Returns "1 x 28 x 28".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace ddprun
