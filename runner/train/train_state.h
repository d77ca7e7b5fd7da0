// SPDX-License-Identifier: MIT
// The progress of a run: everything that a checkpoint keeps besides tensors. Equal on all ranks.
#pragma once

#include "config/experiment.h"
#include "config/monitors.h"
#include "metrics/metric_sums.h"
#include "metrics/run_summary.h"
#include "step/grad_scaler.h"
#include "step/schedule.h"
#include "train/early_stopper.h"

#include <ddprun/error.h>

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct Context;
class TrainStep;

// What features keep (feature.h): texts of JSON by their keys in progress.json.
using FeatureStates = std::map<std::string, std::string>;

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
  EarlyStopper::State stopper;
  Schedule::State schedule;
  GradScaler::State scaler;
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
  int64_t shards = 0;      // trainer.shards
  int64_t threads = 1;     // of each rank's kernels in the attempt that saved it
  int64_t world_size = 1;  // of the attempt that saved it
  int64_t devices = 1;     // of each rank of it
  int64_t train_samples = 0;
  FeatureStates of_features;  // those of features that this program does not have are kept as they are

  // Ends the training after this step, the same on all ranks, if it has not ended yet.
  void end(RunStatus how, const std::string& reason);
  void stop_early(const std::string& reason) { end(RunStatus::kStoppedEarly, reason); }

  std::string to_json() const;

  // Throws UserError if the text is not what to_json() writes; `where` names the file.
  static TrainState from_json(const std::string& text, const std::string& where);

  // Takes what the step knows of itself, for a checkpoint, and gives it back: scaler, schedule, skipped steps.
  void take(TrainStep& made, const Context& context);
  void give(TrainStep& made) const;

  // Notes the ranks and threads of this attempt in the state of another.
  void enter(const TrainState& now);

  // Throws UserError if a run with this experiment and `now_samples` for training cannot continue from this state: it
  // would not see the same samples in the same order, or not in the same shards.
  void require_same_run(const Experiment& experiment, int64_t now_samples, const std::string& where) const;

  // Returns the global batch to continue with, that of the run's start, where trainer.batch_per_worker sets it: in
  // another world its product is another one. Throws UserError if the experiment has another batch_per_worker than the
  // run, and so asks for another global batch, which is trainer.global_batch there.
  int64_t kept_batch(const TrainerConfig& trainer, const std::string& where) const;
};

// Returns the state at the start of a run.
TrainState first_state(const Context& context);

// Returns the error of a checkpoint's text of JSON that cannot be read; `where` names its file.
UserError not_of_this_version(const std::string& where, const std::exception& error);

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

// Returns the experiment's schedule over the plan's steps, and warns of what they do not reach.
Schedule schedule_of(const Context& context, const TrainPlan& plan);

}  // namespace ddprun
