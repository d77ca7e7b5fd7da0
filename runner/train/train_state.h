// SPDX-License-Identifier: MIT
// Where a run stands: all that a checkpoint keeps besides tensors. Equal on all ranks.
#pragma once

#include "config/experiment.h"
#include "metrics/metric_sums.h"
#include "metrics/run_summary.h"
#include "train/early_stopper.h"
#include "train/grad_scaler.h"
#include "train/schedule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct TrainState {
  int64_t step = 0;                 // optimizer steps done
  int64_t evaluated_step = 0;       // the step of the last finished evaluation at an epoch's end
  int64_t samples = 0;              // training samples seen by all ranks
  std::vector<MetricTotal> window;  // training metrics that are not yet in the next two, all ranks together
  std::vector<MetricTotal> row;     // since the last row
  std::vector<MetricTotal> part;    // since the last part's end
  int64_t part_samples = 0;         // `samples` and `train_seconds` there
  double part_seconds = 0;
  EarlyStopper::State stopper;
  Schedule::State schedule;
  GradScaler::State scaler;
  int64_t micro_batch = 0;  // that trainer.micro_batch=auto found; 0: none was searched
  MemoryFormat memory_format = MemoryFormat::kChannelsFirst;  // that trainer.memory_format=auto found, or asked for
  std::optional<double> best_value;                           // of checkpoint.monitor
  NamedValues best_metrics;              // all metrics of that evaluation, checkpoint.monitor's first
  int64_t best_step = 0;                 // where it was
  NamedValues last_metrics;              // the last value of each
  int64_t skipped = 0;                   // steps skipped with trainer.on_nonfinite, here and next: skip or rollback
  int64_t skips_in_row = 0;              // that ended with this step
  int64_t skipped_without_overflow = 0;  // of the skipped, those that the scaler did not count as overflows
  std::vector<int64_t> skipped_steps;    // by rollback: the steps whose batch is passed over
  std::optional<RunStatus> finished;     // completed or stopped_early, once training is over
  std::string stop_reason;
  double train_seconds = 0;  // in training steps, all attempts
  RunClock::State clock;
  int64_t global_batch = 0;  // what the run was started with: a resumed run must agree
  uint64_t seed = 0;
  int64_t world_size = 1;  // of the attempt that saved it
  int64_t devices = 1;     // of each rank of it
  int64_t train_samples = 0;

  std::string to_json() const;

  // Throws UserError where the text is not what to_json() writes; `where` names the file.
  static TrainState from_json(const std::string& text, const std::string& where);
};

// How long a training is and what is due at which of its steps: the same on all ranks.
class TrainPlan {
 public:
  // `samples` of the training split.
  TrainPlan(const TrainerConfig& config, int64_t samples);

  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t max_steps() const { return max_steps_; }

  // The epoch of the step that was done last, counted from 1.
  int64_t epoch_of(int64_t step) const { return step == 0 ? 1 : (step - 1) / steps_per_epoch_ + 1; }
  bool is_epoch_end(int64_t step) const { return step % steps_per_epoch_ == 0; }
  bool due(const Interval& every, int64_t step) const;  // by steps or epochs

  // Whether no step is left to be done.
  bool all_done(const TrainState& state) const { return state.step >= max_steps_ || state.finished.has_value(); }

  // Whether the steps of an epoch, or of a part of one (trainer.eval_every), are done and its evaluation is not.
  bool at_part_end(const TrainState& state) const;

 private:
  int64_t steps_per_epoch_, max_steps_;
  Interval eval_every_;
};

}  // namespace ddprun
