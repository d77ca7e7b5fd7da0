// SPDX-License-Identifier: MIT
#include "config/sections.h"

namespace ddprun {

PredictionsConfig read_predictions(Options& options) {
  constexpr int64_t kMostBatches = 1000, kMostImages = 10'000;  // a table to look at, held in memory
  PredictionsConfig predictions;
  predictions.batches = options.get<int64_t>("num_batches_to_log", 1,
                                             "evaluation batches to take samples from; 0: none", {0, kMostBatches});
  predictions.images_per_batch = options.get<int64_t>("log_images_per_batch", predictions.images_per_batch,
                                                      "samples of each, the first ones; 0: none", {0, kMostImages});
  return predictions;
}

}  // namespace ddprun
