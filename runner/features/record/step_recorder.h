// SPDX-License-Identifier: MIT
// Records what the steps of `record.steps` compute (step_record.h), operator by operator, beside the training
// that makes them: its bits stay what they are.
//
// Recorded are the operators of forward and backward of each part that is computed at once, by the digests of their
// results. Not recorded are views, memory that an operator leaves unwritten (aten::empty, the state of a dropout that
// is none), and the exchange of gradients, which depends on the ranks: its result is recorded. Used from the training
// thread.
#pragma once

#include "base/run_files.h"
#include "data/loader.h"
#include "features/record/record_section.h"
#include "features/record/step_record.h"
#include "step/context.h"
#include "step/gradients.h"
#include "step/operator_listener.h"
#include "train/feature.h"

#include <ddprun/safetensors.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class StepRecorder final : public Feature, public StepWatcher, public OperatorListener {
 public:
  explicit StepRecorder(const Context& context);  // which outlives it

  std::optional<LeftOut> leaves_out() const override { return LeftOut{config_.steps.last - 1, config_.without}; }
  Look look(int64_t step) override;
  StepWatcher* watcher() override { return is_recording_ ? this : nullptr; }

  // Begins the record of a step. In the last one that is recorded it computes what each sample of this rank's part
  // loses alone, in evaluation, and leaves model and generators as they were.
  void before_step(Loop& loop, const TrainBatch& batch) override;

  bool needs_gradients() const override { return true; }
  OperatorListener* listener(int64_t /*samples*/) override { return this; }
  void begin_part(const Batch& batch, int64_t shard) override;
  void begin_backward(const Step& forward) override;
  void end_part() override;
  void gradients(const std::vector<NamedParameter>& parameters) override;

  // Notes what the step has left, and writes the record. Throws UserError if it cannot be written.
  void computed(Loop& loop, const TrainBatch& batch, const StepOutcome* outcome) override;

  std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& call) override;
  void ended(const at::RecordFunction& call, at::ObserverContext& of_begun) override;
  bool needs_outputs() const override { return true; }

 private:
  std::map<int64_t, double> losses_of(const TrainBatch& batch) const;
  std::vector<NamedNote> state(const Loop& loop) const;
  std::string parameters_of(const at::RecordFunction& call) const;
  bool is_kept() const;

  const Context& context_;
  const RecordConfig& config_;
  std::map<const void*, std::string> names_;    // of parameters, by their memory
  std::map<int64_t, OperatorNote> forward_of_;  // operators, by autograd's number for their backward
  std::map<int64_t, double> losses_;            // of samples, by their numbers
  bool is_recording_ = false, in_backward_ = false;
  StepRecord record_;
  PartNote part_;
  TensorDict kept_;  // the results of the operator that is kept
  RecordFile file_;
};

}  // namespace ddprun
