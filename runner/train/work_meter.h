// SPDX-License-Identifier: MIT
// Measures how much work a run does: tokens, and floating-point operations of the model in relation to what its devices
// could do (model FLOP utilisation, MFU; Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", 2022).
//
// Rank 0 counts the operations of one step, the first of an attempt or the first after something is unfrozen: each
// sample is taken to be as much. Used from the training thread.
#pragma once

#include "data/loader.h"
#include "train/context.h"
#include "train/flop_count.h"
#include "train/train_state.h"
#include "train/train_step.h"

#include <optional>
#include <string>

namespace ddprun {

class WorkMeter {
 public:
  // All arguments outlive it.
  WorkMeter(const Context& context, TrainState& state) : context_(context), state_(state) {}

  // Has the step's next run() counted if it is not known what its samples take; not one that is recorded.
  void before_run(const TrainBatch& batch, TrainStep& step);
  // Adds samples, of all ranks, to the state.
  void add(int64_t samples);
  // Forgets what they take: something else trains now.
  void forget() { is_known_ = false; }

  // Returns the floating-point operations that all devices together could have done in this time; NaN if that is not
  // known.
  double possible(double seconds) const;

  // Returns the speeds of a row: "samples_per_second" and, as far as they are known, those of its work.
  NamedValues speeds(double samples_per_second, const TrainWork& work, double seconds) const;

 private:
  const Context& context_;
  TrainState& state_;
  std::optional<FlopCount> count_;  // of the step under way
  bool is_known_ = false, has_convolutions_ = false;
  double flops_per_sample_ = 0;
};

// Returns the operations a second of a GPU of this name ("NVIDIA H200") by its vendor's data sheet, of matrices without
// zeros to skip, on the fastest units that this precision may use; 0: not known. Where the precision is fp32, only
// convolutions use TF32.
double peak_flops(const std::string& device, PrecisionMode precision, bool has_convolutions);

// Returns the tokens of a sample: how long its target is, where that is a class for each place of a sequence; else 0.
int64_t tokens_of_sample(const Batch& batch);

}  // namespace ddprun
