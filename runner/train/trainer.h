// SPDX-License-Identifier: MIT
// The training loop of one worker.
//
// Every rank takes the same branches: whatever decides one (the step, a limit, an all-reduced metric, an agreed flag)
// is equal on all of them, or the next collective would hang. What a training does besides is in features (feature.h),
// none of which the loop knows.
#pragma once

#include "step/context.h"
#include "step/train_step.h"
#include "train/agreement.h"
#include "train/batches.h"
#include "train/checkpointer.h"
#include "train/feature.h"
#include "train/progress_log.h"
#include "train/settlement.h"
#include "train/validator.h"

#include <exception>
#include <functional>
#include <string>

namespace ddprun {

class Trainer {
 public:
  // Constructs the trainer; `stop_requested` is asked at every step whether this process was asked to end. `clock`
  // times the ranks' agreement; null: the machine's clock.
  Trainer(Context context, const MakeFeatures& make_features, std::function<bool()> stop_requested,
          Agreement::Clock clock = {});
  Trainer(const Trainer&) = delete;  // its parts refer to each other
  Trainer& operator=(const Trainer&) = delete;

  // Continues from a checkpoint of read_on_all(), instead of from the start; called before run(). Collective. Throws
  // UserError if it belongs to another run.
  void restore(const Checkpoint& checkpoint, const std::string& path);

  // Trains to the end, or until all agree to stop; then tests. Returns how it ended, with what rank 0's summary needs.
  // Throws RollBack with trainer.on_nonfinite rollback. A checkpoint under way is written before that, or an error,
  // passes through, except a CommunicationError. An error of the test is none of the run, which is trained by then:
  // validator() has it.
  RunEnd run();

  // Returns whether all steps were done before run(), which then only tests.
  bool nothing_left() const { return over(); }

  const TrainPlan& plan() const { return plan_; }
  const TrainState& state() const { return state_; }
  const TrainStep& step() const { return step_; }
  const ProgressLog& log() const { return log_; }
  const Checkpointer& checkpoints() const { return checkpoints_; }
  const Validator& validator() const { return validator_; }

 private:
  void prepare();
  void train_step();
  Look run_step(const TrainBatch& batch);
  void write_rows(Look look);
  void decide_with_all_ranks();
  Flags agree(Flags mine);
  void end_part();

  const TrainBatch* next_batch();
  bool choose_parameters(int64_t step);
  void warm_up();
  bool finish_features();
  bool evaluate_finished(const TrainState& before);
  bool validate();
  bool interrupted(Split split);
  void save(bool best = false);
  void save_now(bool best);

  [[noreturn]] void explain(const std::exception& error, const std::string& during);
  bool at_part_end() const { return plan_.at_part_end(state_); }
  bool over() const { return stopping_ || (plan_.all_done(state_) && !at_part_end()); }
  RunEnd end() const;

  Context context_;
  std::function<bool()> stop_requested_;
  TrainPlan plan_;
  Features features_;  // before the step, which trains what they leave
  TrainState state_;
  TrainStep step_;
  ProgressLog log_;
  Agreement agreement_;
  Batches batches_;
  Checkpointer checkpoints_;
  Settlement settlement_;
  Validator validator_;
  Loop loop_;
  bool stopping_ = false;  // all ranks agreed to end here
};

}  // namespace ddprun
