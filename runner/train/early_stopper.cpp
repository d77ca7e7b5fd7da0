// SPDX-License-Identifier: MIT
#include "train/early_stopper.h"

#include <cmath>
#include <sstream>

namespace ddprun {

bool improves(double value, const std::optional<double>& best, bool maximize, double min_delta) {
  if (std::isnan(value)) return false;
  if (!best) return true;
  return maximize ? value > *best + min_delta : value < *best - min_delta;
}

bool EarlyStopper::observe(double value) {
  const bool better = improves(value, state_.best, config_.maximize, config_.min_delta);
  state_.evaluations_without_improvement = better ? 0 : state_.evaluations_without_improvement + 1;
  if (better) state_.best = value;
  if (!config_.target) return state_.evaluations_without_improvement >= config_.patience;
  const bool reached = config_.maximize ? value >= *config_.target : value <= *config_.target;
  state_.evaluations_at_target = reached ? state_.evaluations_at_target + 1 : 0;
  return state_.evaluations_at_target >= config_.patience;
}

std::string EarlyStopper::reason() const {
  std::ostringstream text;
  if (config_.target) {
    text << config_.monitor << " held its target of " << *config_.target << " for " << state_.evaluations_at_target
         << " evaluations";
  } else {
    text << config_.monitor << " did not improve for " << state_.evaluations_without_improvement << " evaluations";
    if (state_.best) text << "; its best is " << *state_.best;
  }
  return text.str();
}

}  // namespace ddprun
