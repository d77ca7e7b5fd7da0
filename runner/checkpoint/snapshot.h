// SPDX-License-Identifier: MIT
// A checkpoint that does not change while training goes on: copies in host memory that is reused each time.
#pragma once

#include "checkpoint/checkpoint.h"

namespace ddprun {

class Snapshot {
 public:
  // Call on the rank that writes the run's files. The result shares its memory with the previous one, which nobody may
  // still be reading, and Checkpoint::ranks with `live`.
  Checkpoint take(const Checkpoint& live);

 private:
  TensorDict model_, average_, optimizer_;
};

}  // namespace ddprun
