// SPDX-License-Identifier: MIT
#include "train/trainer.h"

#include "base/log.h"
#include "step/trials.h"

#include <ddprun/error.h>

#include <algorithm>
#include <utility>

namespace ddprun {

Trainer::Trainer(Context context, const MakeFeatures& make_features, std::function<bool()> stop_requested,
                 Agreement::Clock clock)
    : context_(std::move(context)),
      stop_requested_(std::move(stop_requested)),
      plan_(context_.experiment.trainer, context_.dataset->size(Split::kTrain)),
      features_(make_features(context_, plan_)),
      state_(first_state(context_)),
      step_(context_, schedule_of(context_, plan_),
            [this](const std::string& name) { return features_.ever_trains(name); }),
      log_(context_, plan_, state_, step_, features_),
      agreement_(context_.communicator, std::move(clock), features_.count()),
      batches_(context_, agreement_, stop_requested_, features_.leaves_out()),
      checkpoints_(context_, step_, features_, [this] { context_.enter(Activity::kSaving, state_.step); }),
      settlement_(context_, state_, step_, log_, checkpoints_, features_.any(&Feature::only_measures)),
      validator_(context_, plan_, state_, step_, log_,
                 {.alive = [this] { context_.enter(Activity::kEvaluating, state_.step); },
                  .interrupted = [this](Split split) { return interrupted(split); },
                  .give_up = [this] { return batches_.out_of_patience(); }}),
      loop_{.context = context_,
            .plan = plan_,
            .state = state_,
            .step = step_,
            .log = log_,
            .checkpoints = checkpoints_,
            .next_batch = [this] { return next_batch(); },
            .choose_parameters = [this](int64_t step) { choose_parameters(step); }} {}

RunEnd Trainer::run() try {
  features_.each(&Feature::start, loop_);
  if (!over()) prepare();
  while (!over()) {
    context_.model->train();
    while (!at_part_end() && !stopping_) train_step();
    step_.timer().pause();
    if (!stopping_) end_part();
  }
  if (!stopping_) state_.end(RunStatus::kCompleted, "all steps are done");
  if (!features_.any(&Feature::only_measures)) {
    save();
    if (!stopping_) validator_.test(checkpoints_);
    checkpoints_.finish();
  }
  agreement_.settle();
  log_.take_phases();
  if (stopping_) batches_.drop();
  return end();
} catch (const CommunicationError&) {
  throw;
} catch (...) {
  checkpoints_.rescue();
  throw;
}

// Prepares this attempt, before its first step: the features' trials are steps whose results are discarded.
void Trainer::prepare() try {
  validator_.require_monitors(state_.last_metrics);  // from a resumed run
  if (state_.step == 0 && context_.experiment.trainer.sanity_batches > 0) validator_.sanity_check();
  if (stopping_) return;
  choose_parameters(state_.step);
  features_.each(&Feature::before_first_step, loop_);
  context_.enter(Activity::kComputing, state_.step);
  warm_up();
  rehearse_smallest_part(context_, step_, state_.train_samples, loop_.next_batch);
  if (stopping_) return;
  if (settlement_.start()) save_now(false);
  log_.start();
} catch (const std::exception& error) {
  explain(error, "in a trial before the first step");
}

void Trainer::train_step() try {
  if (choose_parameters(state_.step)) {
    warm_up();
    features_.each(&Feature::parameters_changed, loop_);
  }
  features_.each(&Feature::before_batch, state_.step + 1);
  context_.enter(Activity::kLoadingData, state_.step);
  log_.begin_step();
  step_.timer().begin(StepPhase::kData);
  if (!next_batch()) return;
  context_.enter(Activity::kComputing, state_.step);
  const auto look = run_step(batches_.take());
  ++state_.step;
  write_rows(look);
  decide_with_all_ranks();
} catch (const std::exception& error) {
  explain(error, log::text("in step ", state_.step + 1));
}

// Runs the step of this batch, or skips it, since an earlier attempt rolled back because of it.
Look Trainer::run_step(const TrainBatch& batch) {
  const auto step = state_.step + 1;
  auto look = Look::kNone;
  if (settlement_.skips(step)) {
    step_.skip(state_.step);
    ++state_.skipped;
    features_.each(&Feature::computed, loop_, batch, nullptr);
  } else {
    look = features_.look(step);
    features_.each(&Feature::before_step, loop_, batch);
    auto outcome = step_.run(batch, state_.step, look != Look::kNone, features_.watchers());
    features_.each(&Feature::computed, loop_, batch, &outcome);
    settlement_.open(batch, std::move(outcome));
    state_.samples += batch.global_samples;
  }
  step_.timer().begin(StepPhase::kOther);
  return look;
}

void Trainer::write_rows(Look look) {
  const bool row_is_due = at_part_end() || state_.step % context_.experiment.trainer.log_every == 0;
  if (row_is_due) {
    step_.timer().begin(StepPhase::kWait);
    step_.settle_weights();
  }
  step_.timer().begin(StepPhase::kLogging);
  if ((row_is_due || look == Look::kSettled) && settlement_.settle()) {
    features_.each(&Feature::settled, loop_);
    if (row_is_due) log_.log_window();
  }
  features_.each(&Feature::after_rows, loop_);
  log_.end_step();
  step_.timer().begin(StepPhase::kOther);
}

// Decides with all ranks: to stop, to save, and what features vote for. Up to that decision, in which the host waits
// for the GPU, the time is the step's.
void Trainer::decide_with_all_ranks() {
  context_.enter(Activity::kAgreeing, state_.step);
  const auto flags = agree({.stop = stop_requested_(),
                            .save = checkpoints_.is_due_by_clock(),
                            .save_failed = checkpoints_.failed(),
                            .votes = features_.votes(loop_)});
  log_.end_training();
  if (flags.save_failed) checkpoints_.finish();
  features_.elected(flags.votes, loop_);
  stopping_ = flags.stop;
  if (!settlement_.learn(flags)) return;
  features_.each(&Feature::after_step, loop_);
  const auto& every = context_.experiment.checkpoint.every;
  const bool by_step = every.steps > 0 && plan_.due(every, state_.step);
  const bool save_is_due = by_step || flags.save || checkpoints_.is_asked_for();
  if (!stopping_ && !at_part_end() && save_is_due) save();
}

// Exchanges the flags raised since the last exchange if one is due after this step; else returns nothing.
Flags Trainer::agree(Flags mine) {
  if (!agreement_.due()) {
    agreement_.keep(mine);
    return {};
  }
  settlement_.hand_in(mine);
  mine.may_wait = batches_.may_wait();
  return agreement_.exchange(mine);
}

// Ends a part: evaluates, decides on stopping, counts the part, saves. If interrupted, it leaves the evaluation to the
// resumed run.
void Trainer::end_part() {
  if (!settlement_.settle()) return;
  features_.each(&Feature::before_evaluation, loop_);
  if (features_.any(&Feature::only_measures)) {
    state_.evaluated_step = state_.step;
    return log_.log_part(0);
  }
  const auto before = state_;
  bool changed = plan_.all_done(state_) && finish_features();
  if (!validate()) return;
  state_.evaluated_step = state_.step;
  state_.evaluation_asked = false;
  features_.each(&Feature::after_evaluation, loop_, validator_.evaluated());
  if (plan_.all_done(state_) && features_.finishes(Finish::kToDo)) {  // only this evaluation has ended the run
    changed = true;
    if (!evaluate_finished(before)) return;
  }
  const bool improved = state_.best_step != before.best_step || state_.best_value != before.best_value;
  const bool is_due = plan_.due(context_.experiment.checkpoint.every, state_.step) || checkpoints_.is_asked_for();
  if (changed || improved) return save_now(improved);
  if (is_due) save();
}

// Returns the batch of the next step, for that step and for what is tried before it; null if training is to stop.
const TrainBatch* Trainer::next_batch() {
  if (stopping_) return nullptr;
  const auto* batch = batches_.next(state_.step);
  stopping_ = batch == nullptr;
  return batch;
}

// Has the parameters of the step after `step` steps train. Returns whether they are others than before.
bool Trainer::choose_parameters(int64_t step) {
  const bool changed = features_.choose_parameters(step);
  if (changed) step_.take_parameters();
  return changed;
}

// Has the reducer of the parameters that train now make a step.
void Trainer::warm_up() {
  if (stopping_ || step_.is_warm()) return;
  if (const auto* batch = next_batch()) warm_up_reducer(context_, step_, *batch);
}

// Lets features change the weights. What they do may fail: the weights are on the disk before.
bool Trainer::finish_features() {
  if (!features_.finishes(Finish::kToDo)) return false;
  save();
  checkpoints_.finish();
  features_.each(&Feature::finish);
  return true;
}

// Lets features change the weights after an evaluation, and evaluates those: the best may be these, not the ones
// before. Returns false if that was interrupted.
bool Trainer::evaluate_finished(const TrainState& before) {
  state_.best_value = before.best_value;
  state_.best_metrics = before.best_metrics;
  state_.best_step = before.best_step;
  state_.evaluated_step = before.evaluated_step;
  finish_features();
  if (!validator_.validate_again()) return false;
  state_.evaluated_step = state_.step;
  return true;
}

// Returns false if the evaluation was interrupted. Where it gives no number to follow, the weights are saved before
// that ends the run: with another monitor or mended data it resumes.
bool Trainer::validate() try { return validator_.validate(); } catch (const MonitorIsNan&) {
  save();
  checkpoints_.finish();
  throw;
}

// Returns whether an evaluation under way is to be left to the resumed run. Collective.
bool Trainer::interrupted(Split split) {
  if (state_.step > 0) log_.show_progress(split == Split::kTest && state_.finished ? "test" : "val");
  if (agreement_.exchange({.stop = stop_requested_()}).stop) stopping_ = true;
  return stopping_;
}

void Trainer::save(bool best) {
  if (checkpoints_.step() != state_.step || best) save_now(best);
}

void Trainer::save_now(bool best) {
  context_.enter(Activity::kSaving, state_.step);
  checkpoints_.answer();
  if (!settlement_.settle()) return;
  if (const auto problem = settlement_.problem_of_weights()) throw UserError(*problem);
  features_.each(&Feature::settled, loop_);  // what a failed attempt restarts from
  features_.each(&Feature::save, loop_, state_.of_features);
  log_.save();
  state_.take(step_, context_);
  checkpoints_.save(state_, best);
  log_.event("checkpoint", checkpoint_name(state_.step) + (best ? ", the best so far" : ""));
}

void Trainer::restore(const Checkpoint& checkpoint, const std::string& path) {
  state_ = TrainState::from_json(checkpoint.progress, path);
  state_.require_same_run(context_.experiment, context_.dataset->size(Split::kTrain), path);
  features_.restore(loop_, path);
  state_.enter(first_state(context_));
  validator_.restore();
  state_.give(step_);
  choose_parameters(std::max<int64_t>(0, state_.step - 1));  // that of the last step, whose averages the checkpoint has
  checkpoints_.restore(checkpoint, state_, path);
  log_.restore();
  if (!state_.finished) return;
  const bool longer =
      *state_.finished == RunStatus::kCompleted ? state_.step < plan_.max_steps() : !validator_.still_stops();
  if (longer && !features_.any(&Feature::stays, loop_, *state_.finished)) state_.finished.reset();
}

// To be called in a handler of the error.
void Trainer::explain(const std::exception& error, const std::string& during) {
  features_.each(&Feature::explain, loop_, error, during);
  throw;
}

RunEnd Trainer::end() const {
  auto end = log_.end();
  end.status = word_of(stopping_ ? RunStatus::kPreempted : *state_.finished);
  if (const auto& error = validator_.test_error(); !error.empty()) end.stop_reason += "; the test failed: " + error;
  if (stopping_)
    end.stop_reason = features_.any(&Feature::only_measures) ? "asked to stop" : "asked to stop; saved and resumable";
  end.test_correct = validator_.tested().correct;
  end.test_total = validator_.tested().total;
  end.checkpoint = checkpoints_.path();
  features_.each(&Feature::at_end, loop_, end);
  return end;
}

}  // namespace ddprun
