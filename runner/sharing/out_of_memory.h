// SPDX-License-Identifier: MIT
// Distinguishes short memory from all else that may fail, and what to do then.
#pragma once

#include "config/experiment.h"

#include <ddprun/error.h>

#include <exception>
#include <string>

namespace ddprun {

class OutOfMemory : public UserError {
 public:
  // Says what ran ("in step 3"), what was asked for, what is held (a line, or empty), and what to change.
  OutOfMemory(const std::exception& error, const std::string& during, const std::string& advice,
              const std::string& held = "");
};

// Returns false for an OutOfMemory, whose advice is that of the place nearest to the problem.
bool is_out_of_memory(const std::exception& error);

// Return what to change so that a step, an evaluation's batch, or all else fits. `micro_batch`: what
// trainer.micro_batch=auto has found; 0: nothing yet. `workers` could share the optimizer. `may_recompute`: the model
// has blocks that backward could compute again, and does not.
std::string advice_for_steps(const TrainerConfig& config, int64_t micro_batch, int64_t workers, bool may_recompute);
std::string advice_for_evaluations(int64_t eval_batch);  // samples of one now
std::string advice_for_all_else();

// To be called in a handler of `error`: rethrows it, as an OutOfMemory if memory ran out.
[[noreturn]] void rethrow_with_advice(const std::exception& error, const std::string& during, const std::string& advice,
                                      const std::string& held = "");

}  // namespace ddprun
