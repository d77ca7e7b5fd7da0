// SPDX-License-Identifier: MIT
// Formats what `ddprun data` prints: the samples of an experiment in lines of 80 columns.
#pragma once

#include "data/data_survey.h"

#include <string>
#include <vector>

namespace ddprun {

struct DataSurvey {
  std::string experiment, dataset;  // their names
  DataSpec spec;
  std::vector<SplitSurvey> splits;
  AugmentationSurvey augmentation;
  DataAccount account = {};
};

std::string data_text(const DataSurvey& survey);

// Returns a sentence about what training does to the samples.
std::string augmentation_text(const AugmentationSurvey& found);

// Returns what looks like a mistake, a sentence each: classes without a training sample, numbers that are not finite,
// constant inputs.
std::vector<std::string> doubts(const DataSurvey& survey);

// Returns "1 x 28 x 28".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace ddprun
