// SPDX-License-Identifier: MIT
// The page of `ddprun predict --html`: the worst predictions, with the samples' pictures.
#pragma once

#include "agent/checked_experiment.h"

#include <ddprun/batch.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

inline constexpr int kMostPredicted = 200;  // samples

struct PredictionsPage {
  std::filesystem::path run;
  const CheckedExperiment& checked;           // its data are prepared
  bool started = false;                       // the dataset, as the run has noted it
  std::string checkpoint;                     // which one it is, for people
  std::string split;                          // that is shown, if there are no inputs
  std::vector<std::filesystem::path> inputs;  // new files, those alone that the dataset has taken
  const nlohmann::ordered_json& result;       // of the workers: "samples", "correct", "worst"
};

// Throws UserError if the samples cannot be read or the page cannot be written.
void write_predictions_page(const PredictionsPage& page, const std::filesystem::path& out);

}  // namespace ddprun
