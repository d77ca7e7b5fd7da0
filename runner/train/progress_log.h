// SPDX-License-Identifier: MIT
// Sends the loggers rows of metrics, the measurements of each rank, histograms, progress and events during training.
// Used from the training thread, on all ranks; only rank 0 has loggers.
#pragma once

#include "base/clock.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"
#include "metrics/system_metrics.h"
#include "train/context.h"
#include "train/train_state.h"
#include "train/train_step.h"
#include "train/work_meter.h"

#include <string>
#include <vector>

namespace ddprun {

class ProgressLog {
 public:
  // All arguments outlive it.
  ProgressLog(const Context& context, const TrainPlan& plan, TrainState& state, TrainStep& step, StepTimer& timer)
      : context_(context),
        plan_(plan),
        state_(state),
        step_(step),
        timer_(timer),
        work_(context, state),
        system_metrics_(context.backend.get()) {}

  // Called at the beginning of an attempt: rows count from the state's step on.
  void start();

  void begin_step();
  void end_step();      // after its rows
  void end_training();  // after what the ranks agree on: what follows, callbacks and saving, is not the step's time
  double train_seconds() const;  // in training steps, including the current one so far

  // Counts what a call takes, a wait for the steps of a GPU, as time in training steps.
  template <class Call>
  void count(Call&& call) {
    if (in_step_) return call();
    begin_step();
    call();
    end_training();
  }

  WorkMeter& work() { return work_; }  // of the steps that are run

  // Adds a step that counts to the sums of the next row.
  void add(const StepOutcome& outcome) { window_.add(outcome.sums()); }

  // Takes the sums of all ranks and writes the row "train" if it is due. Collective.
  void log_window();
  // Writes the row "epoch": the means over an epoch, or over the part between two evaluations.
  void log_part(double evaluation_seconds);
  void log_row(const std::string& split, NamedValues values);
  void event(const std::string& kind, const std::string& text);
  void show_progress(const char* phase);

  // Returns whether a row "system" is due, by rank 0's clock; false on the other ranks.
  bool system_row_is_due();
  void log_system();  // collective

  // Returns whether the gradients of the next step are to be shown, so that it is watched: equal on all ranks.
  bool watch_gradients();

  // Puts the sums of all ranks into the state, for a checkpoint. Collective.
  void save_window() { state_.window = window_.exact_totals(context_.communicator); }

  // Continues with the state's sums of all ranks, on rank 0.
  void restore_window() { window_.reset(context_.is_rank_zero() ? state_.window : std::vector<ExactTotal>()); }

  // Returns the phases of this attempt's steps. Waits for a GPU.
  const PhaseSeconds& take_phases();
  const PhaseSeconds& phases() const { return phases_; }

 private:
  double speed();
  void log_training();
  void log_histograms();
  int64_t epoch() const { return plan_.epoch_of(state_.step); }

  const Context& context_;
  const TrainPlan& plan_;
  TrainState& state_;
  TrainStep& step_;
  StepTimer& timer_;
  WorkMeter work_;
  SystemMetrics system_metrics_;
  MetricSums window_;                 // since the state's `window` was taken
  PhaseSeconds phases_;               // except those still in the timer
  int64_t steps_measured_ = 0;        // since the last row of the split "system"
  std::vector<Histogram> gradients_;  // of the last step, if they are shown
  Stopwatch since_progress_, since_step_, since_measured_;
  bool in_step_ = false;
  bool told_of_nothing_ = false;
  int64_t samples_at_row_ = 0;
  double seconds_at_row_ = 0;  // in training steps
  double flops_at_row_ = 0;
  int64_t samples_timed_ = 0;  // of the steps before this one, whose time the state has
  double speed_ = 0;           // samples per second, last shown; 0: no step was timed
};

// Replaces the values of these names, or appends them.
void update(NamedValues& values, const NamedValues& changes);

}  // namespace ddprun
