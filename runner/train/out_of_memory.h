// SPDX-License-Identifier: MIT
// Tells when memory is short from all else that may fail, and what to do then.
#pragma once

#include "config/experiment.h"

#include <ddprun/error.h>

#include <exception>
#include <string>

namespace ddprun {

class OutOfMemory : public UserError {
 public:
  // Tells the user what ran ("in step 3"), what was asked for, and what to change.
  OutOfMemory(const std::exception& error, const std::string& during, const std::string& advice);
};

// Returns false for an OutOfMemory, whose advice is that of the place nearest to the problem.
bool is_out_of_memory(const std::exception& error);

// Return what to change so that a step, an evaluation's batch, or all else fits.
std::string advice_for_steps(const TrainerConfig& config);
std::string advice_for_evaluations(const TrainerConfig& config);
std::string advice_for_all_else();

// Calls `work` and turns its running out of memory into an OutOfMemory.
template <class Work>
auto within_memory(const std::string& during, const std::string& advice, const Work& work) try {
  return work();
} catch (const std::exception& error) {
  if (is_out_of_memory(error)) throw OutOfMemory(error, during, advice);
  throw;
}

}  // namespace ddprun
