// SPDX-License-Identifier: MIT
// How many samples fit into memory in one pass, for `trainer.micro_batch: auto`, and what to say where too many were
// asked for.
#pragma once

#include "comm/communicator.h"
#include "comm/device_backend.h"
#include "config/experiment.h"
#include "train/train_step.h"

#include <ddprun/error.h>

#include <cstdint>
#include <exception>
#include <string>

namespace ddprun {

// Tries the forward and backward pass of `item` with its whole part on every rank, then with half of it, and so on
// until no rank runs out of memory, beside what the optimizer and averages keep from the first step on. Returns the
// same number on all ranks; tells it where it is less than the whole. Throws UserError where not even one sample fits.
// Collective; random generators and buffers change.
int64_t find_micro_batch(TrainStep& step, const TrainBatch& item, Communicator& communicator, DeviceBackend* backend);

// What a training step throws, with out_of_memory_text().
class OutOfMemory : public UserError {
 public:
  using UserError::UserError;
};

bool is_out_of_memory(const std::exception& error);

// For the user: what was asked for in step number `step`, and what to change.
std::string out_of_memory_text(const std::exception& error, int64_t step, const TrainerConfig& config);

}  // namespace ddprun
