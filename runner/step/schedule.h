// SPDX-License-Identifier: MIT
// Computes the learning rate of each step, from the optimizer's own lr and the experiment's `schedule:`.
//
//   constant     the lr
//   step         lr * gamma^(times `every` has passed)
//   multistep    lr * gamma^(milestones passed)
//   exponential  lr * gamma^(steps or epochs)
//   cosine       from the lr to end_lr along half a cosine (Loshchilov, Hutter: "SGDR", 2016)
//   linear       from the lr to end_lr along a line
//   one_cycle    up to the lr and down again (Smith, Topin: "Super-convergence", 2018), as torch's OneCycleLR
//   plateau      lr * factor^(number of stalls of the metric), as torch's ReduceLROnPlateau
//   range_test   from `from` to `to` by the same factor in each step (Smith: "Cyclical learning rates", 2017)
//
// Steps are counted from the run's start, without those skipped for an overflow or a nonfinite loss. During a warm-up
// the lr rises linearly from warmup_from * lr; cosine and linear start after it, the others run from the first step.
#pragma once

#include "config/experiment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class Schedule {
 public:
  // The state that a checkpoint keeps, of a plateau only.
  struct State {
    int64_t reductions = 0;
    std::optional<double> best;
    int64_t bad_evaluations = 0, cooling = 0;
  };

  // The run has at most `total_steps` steps. `first_lr` is the own lr of the optimizer's first group: a range test
  // raises that from `from` to `to`, and the lrs of other groups by the same factor. Throws UserError if it is 0 there.
  Schedule(const ScheduleConfig& config, int64_t global_batch, int64_t steps_per_epoch, int64_t total_steps,
           double first_lr = 1);

  // Returns the lr of the step after `step` steps; `base_lr` is the optimizer's own.
  double lr(double base_lr, int64_t step) const;

  // Takes an evaluation's value of the monitored metric, for a plateau.
  void observe(double value);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

  // Returns warnings of parts of the schedule that the run does not reach: "schedule.milestones: 90ep is after the end
  // of the run, ..."
  std::vector<std::string> warnings() const;

 private:
  int64_t in_steps(const Interval& interval) const;
  double along(double base_lr, int64_t step) const;
  double cycle(double base_lr, double step) const;
  double reduced(double base_lr) const;
  double raised(double share) const;

  ScheduleConfig config_;
  double scaling_ = 1, first_lr_;
  int64_t steps_per_epoch_, total_steps_, warmup_, length_;
  State state_;
};

}  // namespace ddprun
