// SPDX-License-Identifier: MIT
#include "train/train_plan.h"

#include "data/loader.h"

#include <algorithm>

namespace ddprun {
namespace {

int64_t step_limit(const TrainerConfig& config, int64_t steps_per_epoch) {
  const int64_t by_epochs = config.max_epochs * steps_per_epoch;
  return config.max_steps > 0 ? std::min(config.max_steps, by_epochs) : by_epochs;
}

}  // namespace

TrainPlan::TrainPlan(const TrainerConfig& config, int64_t samples)
    : steps_per_epoch_(step_plan(config, samples).steps_per_epoch()),
      max_steps_(step_limit(config, steps_per_epoch_)),
      eval_every_(config.eval_every) {}

bool TrainPlan::due(const Interval& every, int64_t step) const {
  if (every.steps > 0) return step % every.steps == 0;
  return every.epochs > 0 && step % (steps_per_epoch_ * every.epochs) == 0;
}

bool TrainPlan::at_part_end(const TrainState& state) const {
  const bool boundary = all_done(state) || is_epoch_end(state.step) || due(eval_every_, state.step);
  return boundary && state.step > state.evaluated_step;
}

}  // namespace ddprun
