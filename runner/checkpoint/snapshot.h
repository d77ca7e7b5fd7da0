// SPDX-License-Identifier: MIT
// A checkpoint that stays as it is while training goes on: copies in host memory, made again in the same place each
// time.
#pragma once

#include "checkpoint/checkpoint.h"

namespace ddprun {

class Snapshot {
 public:
  // For the rank that writes the run's files. The result shares its memory with the one before, which nobody may be
  // reading any more, and Checkpoint::ranks with `live`.
  Checkpoint take(const Checkpoint& live);

 private:
  TensorDict model_, average_, optimizer_;
};

}  // namespace ddprun
