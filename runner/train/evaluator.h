// SPDX-License-Identifier: MIT
// One exact pass over a split: every sample once, sums and counts all-reduced.
#pragma once

#include "comm/communicator.h"
#include "config/experiment.h"
#include "metrics/metric_sums.h"
#include "train/agreement.h"
#include "train/precision.h"

#include <ddprun/dataset.h>
#include <ddprun/logger.h>
#include <ddprun/model.h>

#include <functional>
#include <memory>
#include <optional>

namespace ddprun {

// What was measured, over all ranks.
struct Evaluation {
  std::vector<MetricTotal> totals;
  at::Tensor confusion;  // [C, C] int64 on the CPU, row = truth; undefined where nobody asked for it
};

// Samples of one rank's evaluation batch. As many as a rank trains on would depend on the number of ranks: one size for
// all.
int64_t eval_batch(const TrainerConfig& config);

class Evaluator {
 public:
  struct Parts {
    std::shared_ptr<Model> model;
    std::shared_ptr<const Dataset> dataset;
    const Objective& objective;
    Communicator& communicator;
    Precision precision;
    c10::Device device;
    SplitImages images = {};
  };

  Evaluator(Parts parts, const TrainerConfig& config) : parts_(std::move(parts)), config_(config) {}

  // Over the split, or its first batches. The same on every rank; nothing where `agree`, called once a round on every
  // rank, said to stop. The model is in evaluation mode meanwhile and in its former mode afterwards.
  std::optional<Evaluation> run(Split split, const Limit& limit, const std::function<bool()>& agree);

  // As many samples as `predictions` takes of its batches, spread evenly over the split, for one sorted by class has
  // one class alone in its first batch; and what the model makes of them: split, epoch and step are the caller's to
  // add. No collective: for one rank alone. The model's mode is kept as by run().
  PredictionTable sample(Split split, const PredictionsConfig& predictions);

 private:
  Parts parts_;
  TrainerConfig config_;
};

}  // namespace ddprun
