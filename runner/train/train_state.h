// SPDX-License-Identifier: MIT
// The progress of a run: everything that a checkpoint keeps besides tensors. Equal on all ranks.
#pragma once

#include "config/experiment.h"
#include "config/monitors.h"
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

// What a training has done, in tokens and floating-point operations.
struct TrainWork {
  int64_t tokens_per_sample = 0;  // 0: its samples are no sequences
  double flops = 0;               // of forward and backward, all ranks together; 0: not counted
  double possible = 0;            // what all devices could have done in that time; NaN: not known
};

struct TrainState {
  int64_t step = 0;                // optimizer steps done
  int64_t evaluated_step = 0;      // the step of the last finished evaluation at the end of an epoch
  bool evaluation_asked = false;   // by a callback, after this step
  int64_t samples = 0;             // training samples seen by all ranks
  std::vector<ExactTotal> window;  // training metrics not yet added to the next two, of all ranks
  std::vector<MetricTotal> row;    // since the last row
  std::vector<MetricTotal> part;   // since the last part's end
  int64_t part_samples = 0;        // `samples` and `train_seconds` there
  double part_seconds = 0;
  TrainWork work, part_work;  // in all, and at the last part's end; of rank 0's counting
  EarlyStopper::State stopper;
  Schedule::State schedule;
  GradScaler::State scaler;
  int64_t micro_batch = 0;                                    // found by trainer.micro_batch=auto; 0: not searched
  bool recomputes = false;                                    // found by trainer.recompute=auto, together with it
  MemoryFormat memory_format = MemoryFormat::kChannelsFirst;  // set by trainer.memory_format or found by its auto
  std::optional<double> best_value;                           // of checkpoint.monitor
  NamedValues best_metrics;              // all metrics of that evaluation, checkpoint.monitor's first
  int64_t best_step = 0;                 // the step of that evaluation
  MetricHistory history;                 // of what best_value is the best of
  NamedValues last_metrics;              // the last value of each
  int64_t skipped = 0;                   // steps skipped with trainer.on_nonfinite skip or rollback
  int64_t skips_in_row = 0;              // ending with this step
  int64_t skipped_without_overflow = 0;  // of these, those that the scaler did not count as overflows
  std::optional<RunStatus> finished;     // completed or stopped_early, once training is over
  std::string stop_reason;
  double train_seconds = 0;  // in training steps, all attempts
  RunClock::State clock;
  int64_t global_batch = 0;      // at the start of the run: a resumed run must use the same
  int64_t batch_per_worker = 0;  // of the attempt that saved it; 0: global_batch was set
  uint64_t seed = 0;
  int64_t shards = 0;           // trainer.shards
  int64_t threads = 1;          // of each rank's kernels in the attempt that saved it
  uint64_t machine_digest = 0;  // what machine_check.h computes, with trainer.shards
  std::string machine;          // that computed it, for people; empty: it was not computed
  int64_t world_size = 1;       // of the attempt that saved it
  int64_t devices = 1;          // of each rank of it
  int64_t train_samples = 0;

  std::string to_json() const;

  // Throws UserError if the text is not what to_json() writes; `where` names the file.
  static TrainState from_json(const std::string& text, const std::string& where);

  // Throws UserError if a run with this experiment and `now_samples` for training cannot continue from this state: it
  // would not see the same samples in the same order, or not in the same shards.
  void require_same_run(const Experiment& experiment, int64_t now_samples, const std::string& where) const;

  // Returns the global batch to continue with, that of the run's start, where trainer.batch_per_worker sets it: in
  // another world its product is another one. Throws UserError if the experiment has another batch_per_worker than the
  // run, and so asks for another global batch, which is trainer.global_batch there.
  int64_t kept_batch(const TrainerConfig& trainer, const std::string& where) const;
};

// Knows the length of a training and what is due at which step: the same on all ranks.
class TrainPlan {
 public:
  // Makes the plan; `samples` is the size of the training split.
  TrainPlan(const TrainerConfig& config, int64_t samples);

  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t max_steps() const { return max_steps_; }

  // Returns the epoch of the last step done, counted from 1.
  int64_t epoch_of(int64_t step) const { return step == 0 ? 1 : (step - 1) / steps_per_epoch_ + 1; }
  bool is_epoch_end(int64_t step) const { return step % steps_per_epoch_ == 0; }
  bool due(const Interval& every, int64_t step) const;  // by steps or epochs

  // Returns whether no step is left.
  bool all_done(const TrainState& state) const { return state.step >= max_steps_ || state.finished.has_value(); }

  // Returns whether the steps of an epoch, or of a part of one (trainer.eval_every, or a callback asked), are done but
  // not evaluated.
  bool at_part_end(const TrainState& state) const;

 private:
  int64_t steps_per_epoch_, max_steps_;
  Interval eval_every_;
};

}  // namespace ddprun
