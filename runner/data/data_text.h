// SPDX-License-Identifier: MIT
// What `ddprun data` prints: the samples of an experiment in lines of 80 columns.
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
};

std::string data_text(const DataSurvey& survey);

// "some of them are changed, differently in each epoch": what training does to the samples, as a sentence.
std::string augmentation_text(const AugmentationSurvey& found);

// What looks like a mistake, a sentence each: classes without a training sample, numbers that are not finite, constant
// inputs.
std::vector<std::string> doubts(const DataSurvey& survey);

// "1 x 28 x 28"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace ddprun
