// SPDX-License-Identifier: MIT
// Finds by trial before the first step how many samples fit into a micro-batch.
#pragma once

#include "comm/communicator.h"
#include "comm/device_backend.h"
#include "train/train_step.h"

#include <cstdint>

namespace ddprun {

// Finds how many samples fit into memory at once, for `trainer.micro_batch: auto`. Tries forward and backward of `item`
// with its whole part on every rank, then with half of it, and so on until no rank runs out of memory, while holding
// what the optimizer and averages keep from the first step on. Returns the same number on all ranks, and logs it if it
// is less than the whole. Throws UserError if not even one sample fits. Collective; random generators and buffers
// change.
int64_t find_micro_batch(TrainStep& step, const TrainBatch& item, Communicator& communicator, DeviceBackend* backend);

}  // namespace ddprun
