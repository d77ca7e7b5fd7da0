// SPDX-License-Identifier: MIT
// The training loop of one worker.
//
// Every rank takes the same branches: whatever decides one (the step, a limit, an all-reduced metric, an agreed flag)
// is equal on all of them, or the next collective would hang.
#pragma once

#include "base/clock.h"
#include "checkpoint/background_saver.h"
#include "checkpoint/snapshot.h"
#include "comm/communicator.h"
#include "comm/device_backend.h"
#include "config/experiment.h"
#include "data/loader.h"
#include "launch/heartbeat.h"
#include "metrics/logger_hub.h"
#include "metrics/profiler.h"
#include "metrics/step_timer.h"
#include "metrics/system_metrics.h"
#include "train/agreement.h"
#include "train/evaluator.h"
#include "train/nonfinite_event.h"
#include "train/precision.h"
#include "train/shard_check.h"
#include "train/train_state.h"
#include "train/train_step.h"

#include <ddprun/optimizer.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun {

// What a worker has put together before training starts; all of it outlives the trainer.
struct TrainerParts {
  Communicator& communicator;
  std::shared_ptr<Model> model;  // prepared, on its device, in its precision
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<Optimizer> optimizer;
  const Objective& objective;
  const Objective& evaluation_objective;
  LoggerHub& loggers;
  BackgroundSaver& checkpoints;
  std::filesystem::path run_dir;  // whose checkpoints these are
  Precision precision;
  std::shared_ptr<DeviceBackend> backend;  // null on the CPU
  c10::Device device = c10::kCPU;
  std::shared_ptr<DataParallel> parallel;             // with trainer.strategy dp
  SplitImages images = {};                            // what makes the batches, where the images lie in memory
  std::function<void(Activity, int64_t step)> moved;  // told of each activity; may be null
  Agreement::Clock clock = {};                        // for how often the ranks agree; null: the machine's
  double command_started_at = wall_seconds();         // seconds since 1970
};

class Trainer {
 public:
  // `stop_requested` is asked at every step: whether this process was told to end.
  Trainer(const Experiment& experiment, TrainerParts parts, std::function<bool()> stop_requested);

  // Before run(): goes on from a checkpoint, as read_on_all() gives it, instead of from the start. Collective. Throws
  // UserError where it belongs to another run.
  void restore(const Checkpoint& checkpoint, const std::string& path);

  // Trains to the end, or until all agree to stop; then tests. Returns how it ended, with what rank 0's summary needs.
  // A checkpoint under way is written before an error passes through, but for a CommunicationError.
  RunEnd run();

  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t max_steps() const { return max_steps_; }
  const TrainState& state() const { return state_; }
  const TrainStep& step() const { return step_; }
  const PhaseSeconds& phases() const { return phases_; }  // of this attempt's steps

  // For failure reports: "training", "evaluating" or "saving".
  const char* phase() const { return phase_; }

  // Whether run() has thrown before its first step, for what the experiment says.
  bool refused() const { return refused_; }

 private:
  // trainer.cpp: the loop
  void begin();
  std::unique_ptr<TrainLoader> source() const;
  void start_from_here();
  void choose_micro_batch(TrainLoader& trial);
  void warm_up_reducer(TrainLoader& rehearsal);
  void train_steps();
  void train_step();
  void agree_after_step();
  Flags agree(Flags mine);
  void moved(Activity activity) const;
  void finish_part();
  bool due(const Interval& every) const { return due(every, state_.step); }
  bool due(const Interval& every, int64_t step) const;  // by steps or epochs
  bool at_epoch_end() const;
  bool at_part_end() const;  // an epoch's or a part's steps are done, its evaluation is not
  bool over() const;
  int64_t epoch_of_step() const;  // counted from 1
  RunEnd end() const;

  // trainer_logging.cpp
  void show_progress(const char* phase);
  void log_window();
  void log_training();
  void log_part(double evaluation_seconds);
  double train_seconds() const;  // within a step: with what it has taken
  void log_row(const std::string& split, NamedValues values);
  bool measure_is_due();
  void log_measures();
  bool watch_gradients();
  void log_histograms();
  void tell(const std::string& kind, const std::string& text);

  // trainer_evaluation.cpp
  std::optional<Evaluation> evaluate(Split split, const Limit& limit, const std::function<bool()>& interrupted);
  void evaluate_a_little();
  void require_monitors(const NamedValues& measured);
  bool evaluate_part();
  bool evaluation_interrupted();
  void observe(const Evaluation& evaluation);
  void log_evaluation(const std::string& split, const Evaluation& evaluation);
  void log_predictions(Split split);
  CheckpointConfig followed_by_best() const;
  std::optional<double> monitored(const std::string& key, const std::string& name, bool required);
  void test();

  // trainer_checkpoint.cpp
  void save(bool best);
  void finish_saving();
  void rescue_save() noexcept;
  Checkpoint checkpoint() const;
  void restore_window(const TensorDict& rank);
  void check_same_run(const std::string& path) const;

  // trainer_nonfinite.cpp; settling and closing steps returns false where training went back to a checkpoint
  bool is_left_out(int64_t step) const;
  void pass_over();
  void hand_in(Flags& mine);
  bool close_agreed(const Flags& agreed);
  bool settle_steps() { return settle_steps(open_.size()); }
  bool settle_steps(size_t count);
  bool close_step(bool nonfinite);
  bool meet_nonfinite(const OpenStep& step);
  void roll_back(int64_t step, const std::string& found, const std::string& advice);
  std::string last_good_checkpoint();
  void save_a_way_back();
  void check_weights() const;

  const Experiment& experiment_;
  TrainerParts parts_;
  std::function<bool()> stop_requested_;
  Agreement agreement_;
  Evaluator evaluator_;
  EarlyStopper stopper_;
  std::vector<at::Tensor> buffers_;
  StepTimer clock_;
  SystemMetrics measures_;
  std::unique_ptr<TrainLoader> source_;
  int64_t steps_per_epoch_, max_steps_;
  TrainStep step_;
  Profiler profile_;
  std::optional<ShardCheck> shards_;

  TrainState state_;
  MetricSums window_;
  std::deque<OpenStep> open_;  // by step
  int64_t handed_in_ = -1;     // the last step whose flag went into an exchange
  struct {
    int64_t to = -1;
    int64_t count = 0;
  } rollbacks_;            // to the checkpoint of that step
  bool stopping_ = false;  // all agreed to end here
  bool refused_ = false;
  bool warned_of_monitor_ = false;
  int64_t saved_step_ = -1;  // of the last checkpoint
  std::string saved_path_;
  Snapshot snapshot_;
  struct {
    int64_t step = -1;
    Evaluation result;
  } tested_;  // the test split's result, where the validation has computed it: a dataset without a validation split
  int64_t test_correct_ = -1, test_total_ = -1;
  PhaseSeconds phases_;               // but for those that the clock still has
  int64_t steps_measured_ = 0;        // since the last row of the split "system"
  std::vector<Histogram> gradients_;  // of the last step, where they are to be shown
  RunClock run_clock_;
  Stopwatch since_save_, since_progress_, since_step_, since_measured_;
  int64_t samples_at_row_ = 0;
  double seconds_at_row_ = 0;  // in training steps
  const char* phase_ = "starting";
};

// Replaces the values of these names, or appends them.
void update(NamedValues& values, const NamedValues& changes);

}  // namespace ddprun
