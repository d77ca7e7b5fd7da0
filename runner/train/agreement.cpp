// SPDX-License-Identifier: MIT
#include "train/agreement.h"

#include <ATen/ATen.h>

namespace ddprun {

Flags Agreement::exchange(const Flags& mine) {
  if (communicator_.alone()) return mine;
  auto sent = at::empty({2}, at::kInt);
  auto* values = sent.data_ptr<int>();
  values[0] = mine.stop ? 1 : 0;
  values[1] = mine.save ? 1 : 0;
  Flags agreed;
  if (pending_) {
    const auto sums = pending_->take();
    agreed = {.stop = sums.data_ptr<int>()[0] > 0, .save = sums.data_ptr<int>()[1] > 0};
  }
  pending_.emplace(communicator_.start_sum(sent));
  return agreed;
}

void Agreement::settle() {
  if (pending_) pending_->take();
  pending_.reset();
}

}  // namespace ddprun
