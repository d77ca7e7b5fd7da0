// SPDX-License-Identifier: MIT
// A checkpoint that stays as it is while training goes on: copies in host memory, made again in the same place each time.
#pragma once

#include "checkpoint/checkpoint.h"

namespace ddprun {

class Snapshot {
 public:
  // Copies what is saved by this rank: all of it by the one that writes the run's files, only Checkpoint::rank by the others. The
  // result shares its memory with the one before, which nobody may be reading any more.
  Checkpoint take(const Checkpoint& live, bool writes_all);

 private:
  TensorDict model_, average_, optimizer_, rank_;
};

}  // namespace ddprun
