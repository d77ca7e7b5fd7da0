// SPDX-License-Identifier: MIT
// Measures how much work a run does: tokens, and floating-point operations of the model in relation to what its devices
// could do (model FLOP utilisation, MFU; Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", 2022).
//
// Rank 0 counts the operations of one step, the first of an attempt or the first after something is unfrozen: each
// sample is taken to be as much. Used from the training thread.
#pragma once

#include "config/experiment.h"
#include "data/loader.h"
#include "features/work/flop_count.h"
#include "step/context.h"
#include "train/feature.h"

#include <optional>
#include <string>

namespace ddprun {

// What a training has done, in tokens and floating-point operations.
struct TrainWork {
  int64_t tokens_per_sample = 0;  // 0: its samples are no sequences
  double flops = 0;               // of forward and backward, all ranks together; 0: not counted
  double possible = 0;            // what all devices could have done in that time; NaN: not known
};

class WorkMeter final : public Feature, public StepWatcher {
 public:
  explicit WorkMeter(const Context& context) : context_(context) {}  // which outlives it

  void parameters_changed(Loop& /*loop*/) override { is_known_ = false; }  // so that a step takes something else

  void before_step(Loop& loop, const TrainBatch& batch) override;
  StepWatcher* watcher() override { return count_ ? this : nullptr; }
  OperatorListener* listener(int64_t samples) override;
  void begin_backward(const Step& /*forward*/) override { count_->begin_backward(); }
  void computed(Loop& loop, const TrainBatch& batch, const StepOutcome* outcome) override;

  void add_to_row(const RowSpan& span, NamedValues& values) override;
  void at_end(const Loop& loop, RunEnd& end) override;

  void save(const Loop& loop, FeatureStates& states) override;
  void restore(Loop& loop, const FeatureStates& states) override;

 private:
  double possible(double seconds) const;
  void count_time(double train_seconds);

  const Context& context_;
  std::optional<FlopCount> count_;  // of the step under way
  bool is_known_ = false, has_convolutions_ = false;
  double flops_per_sample_ = 0;
  TrainWork work_, at_part_;  // in all, and at the last part's end
  double flops_at_row_ = 0, counted_until_ = 0;
};

// Returns the operations a second of a GPU of this name ("NVIDIA H200") by its vendor's data sheet, of matrices without
// zeros to skip, on the fastest units that this precision may use; 0: not known. Where the precision is fp32, only
// convolutions use TF32.
double peak_flops(const std::string& device, PrecisionMode precision, bool has_convolutions);

// Returns the tokens of a sample: how long its target is, where that is a class for each place of a sequence; else 0.
int64_t tokens_of_sample(const Batch& batch);

}  // namespace ddprun
