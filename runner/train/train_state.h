// SPDX-License-Identifier: MIT
// Where a run stands: all that a checkpoint keeps besides tensors. Equal on all ranks.
#pragma once

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
  int64_t micro_batch = 0;                       // that trainer.micro_batch=auto found; 0: none was searched
  std::string memory_format = "channels_first";  // that trainer.memory_format=auto found, or asked for
  std::optional<double> best_value;              // of checkpoint.monitor
  NamedValues best_metrics;                      // all metrics of that evaluation, checkpoint.monitor's first
  int64_t best_step = 0;                         // where it was
  NamedValues last_metrics;                      // the last value of each
  int64_t skipped = 0;                   // steps skipped with trainer.on_nonfinite, here and next: skip or rollback
  int64_t skips_in_row = 0;              // that ended with this step
  int64_t skipped_without_overflow = 0;  // of the skipped, those that the scaler did not count as overflows
  std::vector<int64_t> skipped_steps;    // by rollback: the steps whose batch is passed over
  std::string finished;                  // "completed" or "stopped_early" once training is over
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

}  // namespace ddprun
