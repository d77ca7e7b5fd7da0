// SPDX-License-Identifier: MIT
// Decides after each evaluation whether the run has reached its end. It sees numbers that are all-reduced, so every
// rank decides the same.
#pragma once

#include "config/experiment.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace ddprun {

// Stops when `patience` evaluations in a row did not improve on the best by more than min_delta, or when `hold` in a
// row reached the target, if there is one: whichever comes first.
class EarlyStopper {
 public:
  // The state that a checkpoint keeps.
  struct State {
    std::optional<double> best;
    int64_t evaluations_without_improvement = 0;
    int64_t evaluations_at_target = 0;
  };

  explicit EarlyStopper(EarlyStoppingConfig config) : config_(std::move(config)) {}

  // Takes the monitored value; returns whether to stop. NaN is no improvement and no target reached.
  bool observe(double value);
  std::string reason() const;  // why observe() returned true, in one sentence; the target if both apply

  const State& state() const { return state_; }

  void set_state(const State& state) { state_ = state; }

  // Returns whether a run that it has ended stays so with the patience and the target of now, which may be others than
  // then. `last` is the value observed last.
  bool still_stops(double last);

 private:
  bool stops() const;
  bool reaches_target(double value) const;
  bool held_target() const { return config_.target && state_.evaluations_at_target >= config_.hold; }

  EarlyStoppingConfig config_;
  State state_;
};

// Returns whether `value` is better than `best` by more than min_delta: an equal one is no improvement, whatever its
// loss. Anything is better than nothing; NaN never is.
bool improves(double value, const std::optional<double>& best, bool maximize, double min_delta);

}  // namespace ddprun
