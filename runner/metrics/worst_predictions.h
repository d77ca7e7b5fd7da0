// SPDX-License-Identifier: MIT
// Keeps the predictions that are worth looking at: mistakes, the surest first; of values those that are furthest off;
// of new files, whose truth is unknown, those that the model is least sure of.
#pragma once

#include "metrics/predictions.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class WorstPredictions {
 public:
  // Keeps no more than `most`. `spec` is the dataset's.
  WorstPredictions(size_t most, DataSpec spec) : most_(most), spec_(std::move(spec)) {}

  void add(const PredictedBatch& batch);

  // Takes what another rank's text() has returned.
  void merge(const std::string& text);

  // Returns the rows that it keeps, for merge().
  std::string text() const;

  // Returns {"classes": names, "rows": [{"id", "file", "truth", "guess", "scores"}]}, the worst first, as tables of
  // predictions have it (report/tables.h). `truth` is -1 where it is unknown. Without classes, {"id", "file", "truth",
  // "scores", "error"}: the mean of the squared differences, or the share of an image's pixels whose class is wrong.
  nlohmann::ordered_json table() const;

 private:
  void keep_worst();

  size_t most_;
  DataSpec spec_;
  int64_t classes_ = 0;
  std::vector<nlohmann::ordered_json> rows_;  // with "rank", by which they are sorted
};

}  // namespace ddprun
