// SPDX-License-Identifier: MIT
// Records what the steps of `record.steps` compute (replay/step_record.h), operator by operator, beside the training
// that makes them: its bits stay what they are.
//
// Recorded are the operators of forward and backward of each part that is computed at once, by the digests of their
// results. Not recorded are views, memory that an operator leaves unwritten (aten::empty, the state of a dropout that
// is none), and the exchange of gradients, which depends on the ranks: its result is recorded. Used from the training
// thread.
#pragma once

#include "base/run_files.h"
#include "data/loader.h"
#include "replay/step_record.h"
#include "train/context.h"
#include "train/gradients.h"
#include "train/operator_listener.h"
#include "train/replica_check.h"

#include <ddprun/safetensors.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class StepRecorder final : public OperatorListener {
 public:
  // Both outlive it.
  StepRecorder(const Context& context, const ReplicaCheck& replicas);

  bool covers(int64_t step) const;  // counted from 1; the same on all ranks

  // Begins the record of a step. In the last one that is recorded it computes what each sample of this rank's part
  // loses alone, in evaluation, and leaves model and generators as they were.
  void begin(int64_t step, const TrainBatch& batch);

  // Begin the forward and the backward pass of what is computed at once, and end it; `shard` is -1 if it is none.
  void begin_part(const Batch& batch, int64_t shard);
  void begin_backward(const Step& forward);
  void end_part();

  void note_gradients(const std::vector<NamedParameter>& parameters);

  // Notes what the step has left, and writes the record. Throws UserError if it cannot be written.
  void end();

  std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& call) override;
  void ended(const at::RecordFunction& call, at::ObserverContext& of_begun) override;
  bool needs_outputs() const override { return true; }

 private:
  std::map<int64_t, double> losses_of(const TrainBatch& batch) const;
  std::vector<NamedNote> state() const;
  std::string parameters_of(const at::RecordFunction& call) const;
  bool is_kept() const;

  const Context& context_;
  const ReplicaCheck& replicas_;
  const RecordConfig& config_;
  std::map<const void*, std::string> names_;    // of parameters, by their memory
  std::map<int64_t, OperatorNote> forward_of_;  // operators, by autograd's number for their backward
  std::map<int64_t, double> losses_;            // of samples, by their numbers
  bool in_backward_ = false;
  StepRecord record_;
  PartNote part_;
  TensorDict kept_;  // the results of the operator that is kept
  RecordFile file_;
};

}  // namespace ddprun
