// SPDX-License-Identifier: MIT
// What the loggers are told while training goes on: rows of metrics, the measurements of each rank, histograms, the
// progress bar, events. Used from the training thread, on all ranks; rank 0 alone has loggers.
#pragma once

#include "base/clock.h"
#include "comm/communicator.h"
#include "config/experiment.h"
#include "metrics/logger_hub.h"
#include "metrics/metric_sums.h"
#include "metrics/step_timer.h"
#include "metrics/system_metrics.h"
#include "train/train_state.h"
#include "train/train_step.h"

#include <string>
#include <vector>

namespace ddprun {

class ProgressLog {
 public:
  // All outlive it.
  struct Parts {
    const Experiment& experiment;
    const TrainPlan& plan;
    TrainState& state;
    TrainStep& step;
    StepTimer& timer;
    Communicator& communicator;
    LoggerHub& loggers;
    const Model& model;
    DeviceBackend* backend;  // null on the CPU
  };

  explicit ProgressLog(const Parts& parts) : parts_(parts), system_metrics_(parts.backend) {}

  // At the start of an attempt, and after a rollback: rows count from the state's step on.
  void restart();

  void begin_step() { since_step_.restart(); }
  void end_step();
  double train_seconds() const;  // in training steps; within one: with what it has taken

  // Adds a step that counts to the sums that the next row is made of.
  void add(const StepOutcome& outcome) { window_.add(outcome.sums); }

  // Takes the sums of all ranks, and writes the row "train" where it is due. Collective.
  void log_window();
  // The row "epoch": the means over an epoch, or over what lies between two evaluations of it.
  void log_part(double evaluation_seconds);
  void log_row(const std::string& split, NamedValues values);
  void event(const std::string& kind, const std::string& text);
  void show_progress(const char* phase);

  // Whether a row "system" is due, by rank 0's clock; on the other ranks false.
  bool system_row_is_due();
  void log_system();  // collective

  // Whether the gradients of the next step are to be shown, so that it is watched: the same on all ranks.
  bool watch_gradients();

  // What a checkpoint keeps of the sums: those of all ranks go into the state, which is collective; this rank's own.
  void save_window() { parts_.state.window = window_.totals(parts_.communicator); }
  at::Tensor window() const { return window_.numbers(); }
  void restore_window(const at::Tensor& numbers) { window_.reset(parts_.state.window, numbers); }

  // Of this attempt's steps. Waits for a GPU.
  const PhaseSeconds& take_phases();
  const PhaseSeconds& phases() const { return phases_; }

 private:
  void log_training();
  void log_histograms();
  int64_t epoch() const { return parts_.plan.epoch_of(parts_.state.step); }

  Parts parts_;
  SystemMetrics system_metrics_;
  MetricSums window_;                 // since the state's `window` was taken
  PhaseSeconds phases_;               // but for those that the timer still has
  int64_t steps_measured_ = 0;        // since the last row of the split "system"
  std::vector<Histogram> gradients_;  // of the last step, where they are to be shown
  Stopwatch since_progress_, since_step_, since_measured_;
  int64_t samples_at_row_ = 0;
  double seconds_at_row_ = 0;  // in training steps
};

// Replaces the values of these names, or appends them.
void update(NamedValues& values, const NamedValues& changes);

}  // namespace ddprun
