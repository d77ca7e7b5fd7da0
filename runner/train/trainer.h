// SPDX-License-Identifier: MIT
// The training loop of one worker.
//
// Every rank takes the same branches: whatever decides one (the step, a limit, an all-reduced metric, an agreed flag)
// is equal on all of them, or the next collective would hang.
#pragma once

#include "data/loader.h"
#include "metrics/profiler.h"
#include "replay/digest_log.h"
#include "train/agreement.h"
#include "train/base_weights.h"
#include "train/callbacks.h"
#include "train/checkpointer.h"
#include "train/context.h"
#include "train/early_stopper.h"
#include "train/freezing.h"
#include "train/nonfinite_policy.h"
#include "train/progress_log.h"
#include "train/recomputation.h"
#include "train/replica_check.h"
#include "train/shard_check.h"
#include "train/train_state.h"
#include "train/train_step.h"
#include "train/validator.h"

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// Ends an attempt on all ranks together: the next one starts from the last checkpoint, and skips the batch of a step.
struct RollBack {};

class Trainer {
 public:
  // Constructs the trainer; `stop_requested` is asked at every step whether this process was told to end. `clock` times
  // the ranks' agreement; null: the machine's clock.
  Trainer(Context context, std::vector<NamedCallback> callbacks, std::function<bool()> stop_requested,
          Agreement::Clock clock = {});
  Trainer(const Trainer&) = delete;  // its parts refer to each other
  Trainer& operator=(const Trainer&) = delete;

  // Continues from a checkpoint of read_on_all(), instead of from the start; called before run(). Collective. Throws
  // UserError if it belongs to another run.
  void restore(const Checkpoint& checkpoint, const std::string& path);

  // Trains to the end, or until all agree to stop; then tests. Returns how it ended, with what rank 0's summary needs.
  // Throws RollBack with trainer.on_nonfinite rollback. A checkpoint under way is written before that, or an error,
  // passes through, except a CommunicationError. An error of the test
  // is none of the run, which is trained by then: see test_error().
  RunEnd run();

  // Returns whether all steps were done before run(), which then only tests.
  bool nothing_left() const { return over(); }

  const TrainPlan& plan() const { return plan_; }
  const Freezing& freezing() const { return freezing_; }
  const BaseWeights& base() const { return base_; }  // what checkpoints leave out; rank 0's
  const TrainState& state() const { return state_; }
  const TrainStep& step() const { return step_; }
  const PhaseSeconds& phases() const { return log_.phases(); }  // in this attempt's steps

  // Returns why there are no results of the test; empty if there are, or no test was to be made.
  const std::string& test_error() const { return test_error_; }

  // Returns "training", "evaluating" or "saving", for failure reports.
  const char* phase() const { return phase_; }

  // Returns whether run() threw before its first step because of the experiment.
  bool refused() const { return validator_.refused(); }

 private:
  void begin();
  [[noreturn]] void rethrow_of_steps(const std::exception& error, const std::string& during) const;
  void choose_recomputed();
  void compare_recomputed();
  void try_weights();
  void choose_micro_batch();
  void enter_phase(int64_t step);
  void unfreeze();
  void warm_up();
  void rehearse_smallest_part();
  const TrainBatch* next_batch();
  void drop_loader();
  bool out_of_patience();
  void train_step();
  void start_callbacks();
  void agree_after_step(const at::Tensor& loss);
  void call_back(const at::Tensor& loss);
  void obey(const Requests& requests);
  Flags agree(Flags mine);
  void compare_replicas();
  void finish_part();
  bool validate();
  bool finish_callbacks();
  bool interrupted(Split split);
  void count_part();
  bool evaluate_changed(const TrainState& before);
  void save(bool best);
  void save_now(bool best);
  void finish_saving();
  void tell_of_other_threads(const std::string& path);
  void adopt_world();
  void end_record();
  void log_step(bool recorded);
  void watch_range_test();
  void test();
  void stop_early(const std::string& reason);
  bool settle();
  bool close_steps();
  bool act_on(const NonfinitePolicy::Verdict& verdict);
  [[noreturn]] void roll_back(const NonfinitePolicy::Verdict& verdict);
  void enter(const char* phase, Activity activity);
  void on_activity(Activity activity) const;
  bool due(const Interval& every) const { return plan_.due(every, state_.step); }
  bool at_part_end() const { return plan_.at_part_end(state_); }
  bool over() const { return stopping_ || (plan_.all_done(state_) && !at_part_end()); }
  RunEnd end() const;

  Context context_;
  const Experiment& experiment_;
  std::function<bool()> stop_requested_;
  TrainPlan plan_;
  Freezing freezing_;  // before the step, which trains what it leaves
  BaseWeights base_;
  Recomputation recomputation_;
  TrainState state_;
  StepTimer timer_;
  TrainStep step_;
  ProgressLog log_;
  Agreement agreement_;
  NonfinitePolicy nonfinite_;
  ReplicaCheck replicas_;
  DigestLog digests_;
  StepRecorder recorder_;
  Callbacks callbacks_;
  Checkpointer checkpoints_;
  Validator validator_;
  RangeTest range_test_;
  Profiler profiler_;
  RunClock run_clock_;
  std::unique_ptr<TrainLoader> loader_;  // of the next step on; null until a batch is needed
  std::optional<TrainBatch> next_;       // of the next step, once something has looked at it
  std::optional<ShardCheck> shards_;
  Validator::TestResult test_;
  std::string test_error_;
  bool warmed_up_ = false;         // the reducer of the parameters that train now has made a step
  bool save_asked_ = false;        // by a callback
  bool stopping_ = false;          // all ranks agreed to end here
  std::optional<Stopwatch> told_;  // to end, while this rank waited for samples
  const char* phase_ = "starting";
};

}  // namespace ddprun
