// SPDX-License-Identifier: MIT
#include "train/early_stopper.h"

#include <algorithm>
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
  state_.evaluations_at_target = reaches_target(value) ? state_.evaluations_at_target + 1 : 0;
  return stops();
}

bool EarlyStopper::still_stops(double last) {
  if (!reaches_target(last)) state_.evaluations_at_target = 0;
  return stops();
}

bool EarlyStopper::stops() const {
  return held_target() || (config_.patience > 0 && state_.evaluations_without_improvement >= config_.patience);
}

bool EarlyStopper::reaches_target(double value) const {
  return config_.target && (config_.maximize ? value >= *config_.target : value <= *config_.target);
}

std::string EarlyStopper::reason() const {
  std::ostringstream text;
  if (held_target()) {
    text << config_.monitor << " reached its target of " << *config_.target;
    if (config_.hold > 1) text << " in " << config_.hold << " evaluations in a row";
  } else {
    text << config_.monitor << " did not improve for " << state_.evaluations_without_improvement << " evaluations";
    if (state_.best) text << "; its best is " << *state_.best;
  }
  return text.str();
}

}  // namespace ddprun
