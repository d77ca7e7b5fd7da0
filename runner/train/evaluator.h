// SPDX-License-Identifier: MIT
// Runs one exact pass over a split: every sample once, sums and counts all-reduced.
#pragma once

#include "comm/communicator.h"
#include "config/experiment.h"
#include "metrics/metric_sums.h"
#include "train/agreement.h"
#include "weights/precision.h"

#include <ddprun/dataset.h>
#include <ddprun/logger.h>
#include <ddprun/model.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>

namespace ddprun {

// The results, over all ranks.
struct Evaluation {
  std::vector<MetricTotal> totals;
  NamedValues summary = {};   // the metrics that follow from counts
  at::Tensor confusion = {};  // [C, C] int64 on the CPU, row = truth; undefined unless asked for

  // Returns {"val/loss", 0.04}, ... for the split "val"; without a split the bare names.
  NamedValues values(const std::string& split = "") const;

  // Returns whether no target counted, so that nothing was measured.
  bool is_of_nothing() const { return !totals.empty() && totals.front().count == 0; }
};

// Warns of an evaluation of nothing.
void warn_of_nothing(const Evaluation& evaluation, const std::string& split);

// Returns the results of these sums over all batches and ranks. Throws UserError if the objective's summary() names a
// metric that cannot be logged, or one twice.
Evaluation evaluation_of(std::vector<MetricTotal> totals, const std::vector<MetricCounts>& counts,
                         const Objective& objective);

// Returns the samples of one rank's evaluation batch: one size for all, since those of training depend on the number of
// ranks.
int64_t eval_batch(const TrainerConfig& config);

// How an evaluation ends before its time; by default it does not.
struct Interruption {
  std::function<bool()> agreed;  // called on every rank once a round and after the last one: whether all end it
  std::function<bool()>
      give_up;  // asked while this rank waits for samples; once true, `agreed` is to inform the others
};

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

  // Evaluates the split, or its first batches. The result is the same on every rank; nothing if it was interrupted. The
  // model is in evaluation mode meanwhile and in its former mode afterwards.
  //
  // An error of this rank's samples or model ends the process group's work, unless there is `share`: it is called on
  // every rank after the last round, with the rank's error or null, and throws on all or on none.
  std::optional<Evaluation> run(Split split, const Limit& limit, const Interruption& interruption = {},
                                const std::function<void(const std::exception_ptr&)>& share = {});

  // Returns samples of the split with the model's predictions; split, epoch and step are the caller's to add. It takes
  // as many samples as `predictions` asks for, spread evenly over the split, since the first batch of a sorted one has
  // a single class. Returns nothing once `give_up` returns true while it waits for them. Not collective: for one rank
  // alone. Keeps the model's mode as run() does.
  std::optional<PredictionTable> sample(Split split, const PredictionsConfig& predictions,
                                        const std::function<bool()>& give_up = {});

 private:
  Parts parts_;
  TrainerConfig config_;
};

}  // namespace ddprun
