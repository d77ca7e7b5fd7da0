// SPDX-License-Identifier: MIT
// Sends the loggers rows of metrics, progress and events during training.
// Used from the training thread, on all ranks; only rank 0 has loggers.
#pragma once

#include "base/clock.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"
#include "step/context.h"
#include "step/train_step.h"
#include "train/feature.h"
#include "train/train_state.h"

#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class ProgressLog {
 public:
  // All arguments outlive it.
  ProgressLog(const Context& context, const TrainPlan& plan, TrainState& state, TrainStep& step,
              const Features& features)
      : context_(context),
        plan_(plan),
        state_(state),
        step_(step),
        timer_(step.timer()),
        features_(features),
        clock_(context.command_started_at) {}

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

  // Adds a step that counts to the sums of the next row.
  void add(const StepOutcome& outcome) { window_.add(outcome.sums()); }

  // Takes the sums of all ranks and writes the row "train" if it is due. Collective.
  void log_window();
  // Writes the row "epoch": the means over an epoch, or over the part between two evaluations.
  void log_part(double evaluation_seconds);
  void log_row(const std::string& split, NamedValues values);
  // Keeps what each rank's steps took in this attempt, for the run's end.
  void note_ranks(std::vector<NamedValues> measured) { ranks_ = std::move(measured); }
  const std::vector<NamedValues>& ranks() const { return ranks_; }  // by rank; empty if nothing was measured
  void event(const std::string& kind, const std::string& text);
  void show_progress(const char* phase);

  // Puts the sums of all ranks into the state, for a checkpoint, and the time of the run. Collective.
  void save();

  // Continues with the state's sums of all ranks, on rank 0, and with its time.
  void restore();

  // Returns what of a run's end is known from its state.
  RunEnd end() const;

  // Returns the phases of the steps since the last call. Waits for a GPU.
  PhaseSeconds take_phases();
  const PhaseSeconds& phases() const { return phases_; }  // of this attempt's steps, up to the last call

  int64_t epoch() const { return plan_.epoch_of(state_.step); }

 private:
  double speed();
  void log_training();

  const Context& context_;
  const TrainPlan& plan_;
  TrainState& state_;
  TrainStep& step_;
  StepTimer& timer_;
  const Features& features_;
  MetricSums window_;    // since the state's `window` was taken
  PhaseSeconds phases_;  // except those still in the timer
  std::vector<NamedValues> ranks_;
  RunClock clock_;
  Stopwatch since_progress_, since_step_;
  bool in_step_ = false;
  bool warned_of_nothing_ = false;
  int64_t samples_at_row_ = 0;
  double seconds_at_row_ = 0;  // in training steps
  int64_t samples_timed_ = 0;  // of the steps before this one, whose time the state has
  double speed_ = 0;           // samples per second, last shown; 0: no step was timed
};

// Replaces the values of these names, or appends them.
void update(NamedValues& values, const NamedValues& changes);

}  // namespace ddprun
