// SPDX-License-Identifier: MIT
// What a training does besides its loop: a feature tries something before the first step, looks into steps, adds to
// rows, checks at the end of an epoch. It overrides the events that it is about. The loop (trainer.h) calls each event
// of all features in the order of their list (features/list.cmake), from the training thread, on all ranks at the
// same steps: so an event may be collective, and may throw on all ranks alike. It leaves weights, optimizer, buffers
// and random generators as they were, unless the event says otherwise. Events that callbacks of plugins have, too, bear
// their names (ddprun/callback.h).
#pragma once

#include "data/loader.h"
#include "metrics/metric_sums.h"
#include "step/step_watcher.h"
#include "train/train_state.h"

#include <ddprun/logger.h>
#include <ddprun/safetensors.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

class Checkpointer;
struct Context;
class ProgressLog;
class StepOutcome;
class TrainStep;

// The parts of the loop, and what a feature may ask of it.
struct Loop {
  const Context& context;
  const TrainPlan& plan;
  TrainState& state;
  TrainStep& step;
  ProgressLog& log;
  Checkpointer& checkpoints;

  // Returns the batch of the next step; null, on all ranks, if one of them was asked to end and gets none.
  std::function<const TrainBatch*()> next_batch;
  std::function<void(int64_t step)> choose_parameters;  // Feature::choose_parameters() of all
};

// How closely a feature looks at a step. The same on all ranks.
enum class Look {
  kNone,
  kOperators,  // the step is computed operator by operator, not replayed from a CUDA graph
  kSettled     // and after it all ranks know its outcome, and hold its weights: settled() is called
};

// Whether a feature changes the weights at the end of a training.
enum class Finish { kNever, kToDo, kDone };

// A row of metrics of the training, in the making.
struct RowSpan {
  bool is_part = false;           // over the part between two evaluations, not since the last row
  double seconds = 0, until = 0;  // in training steps; all of them up to its end
  double samples_per_second = 0;
};

class Feature {
 public:
  static constexpr int64_t kWidest = std::numeric_limits<int64_t>::max() - 1;

  virtual ~Feature() = default;

  // --- What trains ---
  // Has those parameters require gradients that the step after `step` steps trains; kWidest: all that ever train.
  // Returns whether they are others than before.
  virtual bool choose_parameters(int64_t /*step*/) { return false; }
  // Returns whether some step trains the parameter; nothing: the feature does not decide that.
  virtual std::optional<bool> ever_trains(const std::string& /*parameter*/) const { return std::nullopt; }
  virtual void parameters_changed(Loop& /*loop*/) {}  // others train from this step on

  // --- An attempt ---
  // Restores what save() and state() gave, if the run is resumed. The loop's state is the checkpoint's, the numbers of
  // workers and devices those of the attempt that saved it.
  virtual void restore(Loop& /*loop*/, const FeatureStates& /*states*/) {}
  virtual void load_state(const TensorDict& /*tensors*/) {}
  // Returns whether a run that had ended so stays ended, by the settings of now.
  virtual bool stays(const Loop& /*loop*/, RunStatus /*ended*/) const { return false; }
  virtual void start(Loop& /*loop*/) {}                                       // comes first, after what is restored
  virtual std::optional<LeftOut> leaves_out() const { return std::nullopt; }  // samples of a step; asked once
  virtual void before_first_step(Loop& /*loop*/) {}
  virtual bool only_measures() const { return false; }  // the run is neither evaluated nor saved
  // Called in a handler of an error of `during`; may throw a better one.
  virtual void explain(const Loop& /*loop*/, const std::exception& /*error*/, const std::string& /*during*/) {}

  // --- A step, in this order, after choose_parameters() and parameters_changed(); `step` counts from 1 ---
  virtual void before_batch(int64_t /*step*/) {}
  virtual Look look(int64_t /*step*/) { return Look::kNone; }
  virtual void before_step(Loop& /*loop*/, const TrainBatch& /*batch*/) {}
  virtual StepWatcher* watcher() { return nullptr; }  // of this step; null: none
  // No outcome: the step was not made, since an earlier attempt rolled back because of its batch.
  virtual void computed(Loop& /*loop*/, const TrainBatch& /*batch*/, const StepOutcome* /*outcome*/) {}
  virtual void settled(Loop& /*loop*/) {}  // all ranks know this step's outcome: at a row, a look, before a save
  virtual void add_to_row(const RowSpan& /*span*/, NamedValues& /*values*/) {}
  virtual void after_rows(Loop& /*loop*/) {}   // with a row or without: settle_weights() before weights are read
  virtual bool votes(Loop&) { return false; }  // asked for each exchange of flags, on each rank
  virtual void elected(Loop& /*loop*/) {}      // a rank has voted
  virtual void after_step(Loop& /*loop*/) {}   // all ranks continue from here

  // --- The end of a part ---
  virtual void before_evaluation(Loop& /*loop*/) {}
  virtual void after_evaluation(Loop& /*loop*/, const NamedValues& /*none: it was not due*/) {}

  // --- The end, before the last evaluation ---
  // Changes the weights, on all ranks alike. They are saved before it does, and evaluated after it.
  virtual Finish finishes() const { return Finish::kNever; }
  virtual void finish() {}
  virtual void at_end(const Loop& /*loop*/, RunEnd& /*end*/) {}

  // --- Checkpoints ---
  virtual void save(const Loop& /*loop*/, FeatureStates& /*states*/) {}
  virtual TensorDict state() const { return {}; }  // rank 0's, copies on the CPU
};

// The features of one training, in their order.
class Features {
 public:
  void add(std::unique_ptr<Feature> feature);  // null: none
  size_t count() const { return features_.size(); }

  // Calls an event of each: each(&Feature::after_step, loop).
  template <class Event, class... Arguments>
  void each(Event event, Arguments&&... arguments) const {
    for (const auto& feature : features_) (feature.get()->*event)(arguments...);
  }
  // Returns whether one of them answers yes.
  template <class Question, class... Arguments>
  bool any(Question question, Arguments&&... arguments) const {
    for (const auto& feature : features_)
      if ((feature.get()->*question)(arguments...)) return true;
    return false;
  }

  bool choose_parameters(int64_t step) const;
  bool ever_trains(const std::string& parameter) const { return says(parameter).value_or(true); }
  std::set<std::string> never_trained(const Model& model) const;
  LeftOut leaves_out() const;
  bool finishes(Finish how) const;             // one of them, so
  Look look(int64_t step) const;               // the closest
  std::vector<StepWatcher*> watchers() const;  // of this step
  uint64_t votes(Loop& loop) const;            // a bit for each feature that votes
  void elected(uint64_t votes, Loop& loop) const;
  TensorDict state() const;

  // Throws UserError, which names the file, for a state that is not one of this version.
  void restore(Loop& loop, const std::string& where) const;

 private:
  std::optional<bool> says(const std::string& parameter) const;

  std::vector<std::unique_ptr<Feature>> features_;
};

// Makes them, once the plan is known: before the optimizer steps, with the model on its device.
using MakeFeatures = std::function<Features(const Context& context, const TrainPlan& plan)>;

}  // namespace ddprun
