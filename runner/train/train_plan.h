// SPDX-License-Identifier: MIT
// How long a training is and what is due at which of its steps: the same on all ranks.
#pragma once

#include "config/experiment.h"
#include "train/train_state.h"

#include <cstdint>

namespace ddprun {

class TrainPlan {
 public:
  // `samples` of the training split.
  TrainPlan(const TrainerConfig& config, int64_t samples);

  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t max_steps() const { return max_steps_; }

  // The epoch of the step that was done last, counted from 1.
  int64_t epoch_of(int64_t step) const { return step == 0 ? 1 : (step - 1) / steps_per_epoch_ + 1; }
  bool is_epoch_end(int64_t step) const { return step % steps_per_epoch_ == 0; }
  bool due(const Interval& every, int64_t step) const;  // by steps or epochs

  // Whether no step is left to be done.
  bool all_done(const TrainState& state) const { return state.step >= max_steps_ || !state.finished.empty(); }

  // Whether the steps of an epoch, or of a part of one (trainer.eval_every), are done and its evaluation is not.
  bool at_part_end(const TrainState& state) const;

 private:
  int64_t steps_per_epoch_, max_steps_;
  Interval eval_every_;
};

}  // namespace ddprun
