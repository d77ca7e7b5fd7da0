// SPDX-License-Identifier: MIT
// Tells when memory is short from all else that may fail, and what to do then.
#pragma once

#include "config/experiment.h"

#include <ddprun/error.h>

#include <cstdint>
#include <exception>
#include <string>

namespace ddprun {

// Thrown by a training step, with out_of_memory_text().
class OutOfMemory : public UserError {
 public:
  using UserError::UserError;
};

bool is_out_of_memory(const std::exception& error);

// Returns the message for the user: what was asked for in step number `step`, and what to change.
std::string out_of_memory_text(const std::exception& error, int64_t step, const TrainerConfig& config);

}  // namespace ddprun
