// SPDX-License-Identifier: MIT
#include "train/agreement.h"

#include <ATen/ATen.h>

namespace ddprun {

Flags Agreement::exchange(const Flags& mine) {
  if (communicator_.alone()) return mine;
  auto sent = at::empty({6}, at::kInt);
  auto* values = sent.data_ptr<int>();
  values[0] = mine.stop ? 1 : 0;
  values[1] = mine.save ? 1 : 0;
  values[2] = mine.time_over ? 1 : 0;
  values[3] = mine.nonfinite ? 1 : 0;
  values[4] = mine.save_failed ? 1 : 0;
  values[5] = mine.measure ? 1 : 0;
  Flags agreed;
  if (pending_) {
    const auto sums = pending_->take();
    const auto* raised = sums.const_data_ptr<int>();
    agreed = {.stop = raised[0] > 0,
              .save = raised[1] > 0,
              .time_over = raised[2] > 0,
              .save_failed = raised[4] > 0,
              .measure = raised[5] > 0,
              .nonfinite = raised[3] > 0,
              .checked_step = pending_step_};
  }
  pending_.emplace(communicator_.start_sum(sent));
  pending_step_ = mine.checked_step;
  return agreed;
}

void Agreement::settle() {
  if (pending_) pending_->take();
  pending_.reset();
}

}  // namespace ddprun
