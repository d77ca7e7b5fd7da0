// SPDX-License-Identifier: MIT
// Runs evaluations during training and acts on them: the best checkpoint, the plateau schedule, early stopping; and the
// test at the end. Used from the training thread, by all ranks alike.
#pragma once

#include "step/train_step.h"
#include "train/checkpointer.h"
#include "train/early_stopper.h"
#include "train/evaluator.h"
#include "train/progress_log.h"
#include "train/train_state.h"

#include <ddprun/error.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// A metric that the experiment follows is NaN: nothing can be decided by it.
class MonitorIsNan : public UserError {
 public:
  using UserError::UserError;
};

// What one rank met in the test, thrown on all.
class TestError : public UserError {
 public:
  using UserError::UserError;
};

class Validator {
 public:
  // How the training takes part in an evaluation.
  struct Hooks {
    std::function<void()> alive;  // called during one
    // As Interruption::agreed, in an evaluation of this split, and give_up.
    std::function<bool(Split split)> interrupted;
    std::function<bool()> give_up;
  };
  struct TestResult {
    int64_t correct = -1, total = -1;  // -1: the task has no classes
  };

  // All arguments but the hooks outlive it.
  Validator(const Context& context, const TrainPlan& plan, TrainState& state, TrainStep& step, ProgressLog& log,
            Hooks hooks);

  void restore();  // from the state

  // Returns whether early stopping, which has ended the run, ends it by the settings of now too. Call it after
  // restore().
  bool still_stops();

  // Evaluates a few batches and discards the results: a mistake in the evaluation, or in what uses its metrics, shows
  // before training.
  void sanity_check();

  // Throws PluginMistake if a followed metric is not among the last ones measured.
  void require_monitors(const NamedValues& measured);
  bool refused() const { return refused_; }  // whether it has thrown

  // Throws MonitorIsNan if a followed metric of these is NaN.
  void require_numbers(const NamedValues& measured) const;

  // Ends a part: evaluates if that is due, writes the rows, and notes the consequences in the state. Returns false if
  // it was interrupted.
  bool validate();

  // Evaluates once more, after the weights have changed, without the rows of a part.
  bool validate_again();

  // Returns the metrics of the evaluation that the last validate() made; none if it was not due.
  const NamedValues& evaluated() const { return evaluated_; }

  // Tests the model and, if the best checkpoint is another one, that too: its results join the state's best metrics.
  // What goes wrong on one rank is on all the reason for which there are no results: a trained run ends without them.
  void test(Checkpointer& checkpoints);

  const TestResult& tested() const { return result_; }  // none if it was interrupted
  const std::string& test_error() const { return test_error_; }

 private:
  using Share = std::function<void(const std::exception_ptr&)>;

  std::optional<Evaluation> run(Split split, const Limit& limit, const Share& share = {});
  std::optional<Evaluation> evaluate(Split split, const Limit& limit, const Share& share = {});
  void share(const std::exception_ptr& error);
  void test_model();
  bool test_best(Checkpointer& checkpoints);
  void take(const Evaluation& evaluation);
  void observe(const Evaluation& evaluation);
  void log_evaluation(const std::string& split, const Evaluation& evaluation);
  void log_predictions(Split split);
  CheckpointConfig followed_by_best() const;
  std::optional<double> monitored(const std::string& key, const std::string& name, bool required);

  const Context& context_;
  const TrainPlan& plan_;
  TrainState& state_;
  TrainStep& step_;
  ProgressLog& log_;
  Hooks hooks_;
  std::vector<at::Tensor> buffers_;  // the model's
  Evaluator evaluator_;
  EarlyStopper stopper_;
  NamedValues evaluated_;
  bool refused_ = false, warned_of_monitor_ = false;
  bool warned_of_nothing_ = false;  // since the last evaluation of something
  struct {
    int64_t step = -1;
    Evaluation result;
  } tested_;  // the test split's result, if validation used that split for lack of its own
  TestResult result_;
  std::string test_error_;
};

}  // namespace ddprun
