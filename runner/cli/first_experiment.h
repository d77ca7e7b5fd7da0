// SPDX-License-Identifier: MIT
// Writes a first experiment for data that have been looked at: a model of their size and kind, and settings that learn
// something of most data.
#pragma once

#include "data/data_text.h"

#include <ddprun/value.h>

#include <map>
#include <string>

namespace ddprun {

// The files in plugins/init, as they were when the program was built (cmake/embed_texts.cmake).
extern const char* const kLargePicturesExperiment;
extern const char* const kNumbersExperiment;
extern const char* const kPicturesExperiment;
extern const char* const kPixelsExperiment;
extern const char* const kTextExperiment;
extern const char* const kValuesExperiment;

struct FirstExperiment {
  std::string place;                           // what `ddprun init` was given
  std::string file, name;                      // of the experiment
  Value dataset;                               // its section, with `plugin`
  std::map<std::string, std::string> remarks;  // beside the dataset's keys
  DataSurvey survey;                           // of the dataset with these options
};

// Returns the experiment as YAML with comments. Throws UserError if no model that comes with ddprun learns such data.
std::string first_experiment_text(const FirstExperiment& first);

// Returns how many times more training samples the largest class has than the smallest that has any; 1 if the data have
// no classes, or are texts.
double imbalance(const DataSurvey& survey);

}  // namespace ddprun
