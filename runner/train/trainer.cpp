// SPDX-License-Identifier: MIT
#include "train/trainer.h"

#include "dist/replicate.h"
#include "log/log.h"
#include "train/rng_state.h"

#include <ddprun/error.h>

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddprun {
namespace {

constexpr double kProgressSeconds = 0.1;

// The validation split, or where there is none the test split, as most guides do.
Split evaluation_split(const Dataset& dataset) { return dataset.size(Split::kVal) > 0 ? Split::kVal : Split::kTest; }

int64_t step_limit(const TrainerConfig& config, int64_t steps_per_epoch) {
  const int64_t by_epochs = config.max_epochs * steps_per_epoch;
  return config.max_steps > 0 ? std::min(config.max_steps, by_epochs) : by_epochs;
}

void update(NamedValues& values, const NamedValues& changes) {
  for (const auto& [name, value] : changes) {
    const auto at = std::ranges::find(values, name, &NamedValues::value_type::first);
    if (at == values.end()) {
      values.emplace_back(name, value);
    } else {
      at->second = value;
    }
  }
}

}  // namespace

Trainer::Trainer(const Experiment& experiment, TrainerParts parts, std::function<bool()> stop_requested)
    : experiment_(experiment),
      parts_(std::move(parts)),
      stop_requested_(std::move(stop_requested)),
      agreement_(parts_.communicator),
      evaluator_({parts_.model, parts_.dataset, parts_.evaluation_objective, parts_.communicator, parts_.device},
                 experiment.trainer),
      stopper_(experiment.early_stopping.value_or(EarlyStoppingConfig{})),
      buffers_(buffers(*parts_.model)),
      steps_per_epoch_(
          StepPlan(parts_.dataset->size(Split::kTrain), experiment.trainer.global_batch).steps_per_epoch()),
      max_steps_(step_limit(experiment.trainer, steps_per_epoch_)) {
  if (!parts_.communicator.alone()) {
    reducer_ = std::make_unique<GradientReducer>(trainable_parameters(*parts_.model), parts_.communicator);
  }
  state_.global_batch = experiment.trainer.global_batch;
  state_.seed = experiment.seed;
  state_.world_size = parts_.communicator.world().size;
  state_.train_samples = parts_.dataset->size(Split::kTrain);
}

RunEnd Trainer::run() {
  if (!over()) {
    source_ = std::make_unique<TrainSource>(parts_.dataset, experiment_.trainer, experiment_.seed,
                                            parts_.communicator.world(), parts_.device, state_.step);
    settle_buckets();
    since_row_.restart();
    samples_at_row_ = state_.samples;
  }
  while (!over()) {
    train_steps();
    if (!stopping_ && at_epoch_end()) finish_epoch();
  }
  if (!stopping_ && state_.finished.empty()) {
    state_.finished = "completed";
    state_.stop_reason = "all steps are done";
  }
  save(false);
  if (!stopping_) test();
  agreement_.settle();
  return end();
}

bool Trainer::at_epoch_end() const {
  const bool boundary = state_.step % steps_per_epoch_ == 0 || state_.step >= max_steps_;
  return boundary && state_.step > state_.evaluated_step;
}

bool Trainer::over() const {
  const bool all_done = state_.step >= max_steps_ && !at_epoch_end();
  return stopping_ || !state_.finished.empty() || all_done;
}

// The reducer finds the order of its buckets in its first step and exchanges gradients in other portions from the second on,
// which changes the rounding of sums over three or more ranks. One step whose result is thrown away puts every start of a run,
// fresh or resumed, behind that: or a resumed run would differ in its first step from one that was never stopped.
void Trainer::settle_buckets() {
  if (!reducer_) return;
  const auto generators = rng_state(parts_.backend.get());
  std::vector<at::Tensor> kept;
  for (const auto& buffer : buffers_) kept.push_back(buffer.clone());
  TrainSource rehearsal(parts_.dataset, experiment_.trainer, experiment_.seed, parts_.communicator.world(),
                        parts_.device, state_.step);
  parts_.model->train();
  const auto item = rehearsal.next();
  compute(item);
  parts_.optimizer->zero_grad();
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < kept.size(); ++i) buffers_[i].copy_(kept[i]);
  set_rng_state(generators, parts_.backend.get());
}

void Trainer::train_steps() {
  parts_.model->train();
  while (!at_epoch_end() && !stopping_) {
    train_step();
    agree_after_step();
  }
}

void Trainer::train_step() {
  phase_ = "training";
  const Stopwatch step_time;
  const auto item = source_->next();
  phases_.data += step_time.seconds();

  const Stopwatch compute_time;
  const auto step = compute(item);
  parts_.optimizer->step();
  parts_.optimizer->zero_grad();
  phases_.compute += compute_time.seconds();

  ++state_.step;
  state_.samples += item.global_samples;
  window_.add(step, item.weight > 0 ? item.batch.size() : 0);
  if (first_step_at_ == 0) first_step_at_ = wall_seconds();
  if (at_epoch_end() || state_.step % experiment_.trainer.log_every == 0) log_window();
  show_progress("train");
  phases_.total += step_time.seconds();
  state_.train_seconds += step_time.seconds();
}

// Forward, backward, and the averaging of gradients for one batch.
Step Trainer::compute(const TrainBatch& item) {
  if (reducer_) {
    reducer_->before_forward();
    parts_.communicator.broadcast(buffers_);
  }
  auto step = parts_.model->step(item.batch, parts_.objective);
  const auto loss = item.weight == 1 ? step.loss : step.loss * item.weight;
  if (reducer_) {
    reducer_->backward(loss);
  } else {
    loss.backward();
  }
  return step;
}

// What all ranks decide together once a step: to stop, to save.
void Trainer::agree_after_step() {
  const auto& every = experiment_.checkpoint.every;
  const bool by_clock = every && every->seconds > 0 && since_save_.seconds() >= every->seconds;
  const auto flags = agreement_.exchange({.stop = stop_requested_(), .save = by_clock});
  stopping_ = flags.stop;
  const bool by_step = every && every->steps > 0 && state_.step % every->steps == 0;
  if (!stopping_ && !at_epoch_end() && (by_step || flags.save)) save(false);
}

void Trainer::show_progress(const char* phase) {
  if (since_progress_.seconds() < kProgressSeconds) return;
  since_progress_.restart();
  const double speed = static_cast<double>(state_.samples - samples_at_row_) / std::max(since_row_.seconds(), 1e-9);
  parts_.loggers.progress({epoch_of_step(), state_.step, (state_.step - 1) % steps_per_epoch_ + 1, phase, speed});
}

int64_t Trainer::epoch_of_step() const { return state_.step == 0 ? 1 : (state_.step - 1) / steps_per_epoch_ + 1; }

void Trainer::log_window() {
  const auto totals = window_.totals(parts_.communicator);
  window_.reset();
  check_finite(totals);
  update(state_.last_metrics, means(totals, "train"));
  auto values = means(totals);
  values.emplace_back("lr", parts_.optimizer->groups().front().lr);
  const double seconds = since_row_.seconds();
  values.emplace_back("samples_per_second",
                      static_cast<double>(state_.samples - samples_at_row_) / std::max(seconds, 1e-9));
  since_row_.restart();
  samples_at_row_ = state_.samples;
  log_row("train", std::move(values));
}

void Trainer::check_finite(const std::vector<MetricTotal>& totals) const {
  if (!experiment_.trainer.stop_on_nonfinite || totals.empty() || std::isfinite(totals.front().sum)) return;
  throw UserError(log::text("the training loss is not finite (", totals.front().mean(), ") in the steps up to ",
                            state_.step,
                            ". Lower the learning rate or look at the data; trainer.stop_on_nonfinite=false goes on "
                            "regardless. The last checkpoint is from before."));
}

void Trainer::log_row(const std::string& split, NamedValues values) {
  parts_.loggers.metrics({.time = wall_seconds(),
                          .split = split,
                          .epoch = epoch_of_step(),
                          .step = state_.step,
                          .samples = state_.samples,
                          .values = std::move(values)});
}

// Evaluates, decides on stopping, counts the epoch, saves. Interrupted, it leaves the evaluation to the resumed run.
void Trainer::finish_epoch() {
  const bool last = state_.step >= max_steps_;
  const bool due = last || epoch_of_step() % experiment_.trainer.eval_every == 0;
  bool improved = false;
  if (due && parts_.dataset->size(evaluation_split(*parts_.dataset)) > 0) {
    const auto totals = evaluate(evaluation_split(*parts_.dataset), [this] { return evaluation_interrupted(); });
    if (!totals) return;
    if (evaluation_split(*parts_.dataset) == Split::kTest) tested_ = {state_.step, *totals};
    const auto before = state_.best_value;
    observe(*totals);
    improved = state_.best_value != before;
  }
  state_.evaluated_step = state_.step;
  since_row_.restart();
  const auto& every = experiment_.checkpoint.every;
  const bool by_epoch = every && every->epochs > 0 && epoch_of_step() % every->epochs == 0;
  const bool by_step = every && every->steps > 0 && state_.step % every->steps == 0;
  if (by_epoch || by_step || improved) save(improved);
}

// With rank 0's buffers, which are the checkpoint's: after a training step each rank has BatchNorm statistics of its own, and a
// result that mixes them could not be had again from any checkpoint.
std::optional<std::vector<MetricTotal>> Trainer::evaluate(Split split, const std::function<bool()>& interrupted) {
  phase_ = "evaluating";
  parts_.communicator.broadcast(buffers_);
  return evaluator_.run(split, interrupted);
}

bool Trainer::evaluation_interrupted() {
  show_progress("val");
  if (agreement_.exchange({.stop = stop_requested_()}).stop) stopping_ = true;
  return stopping_;
}

void Trainer::observe(const std::vector<MetricTotal>& totals) {
  log_row("val", means(totals));
  const auto values = means(totals, "val");
  update(state_.last_metrics, values);
  const auto& config = experiment_.checkpoint;
  const auto value = monitored(config.monitor, false);
  if (value && improves(*value, state_.best_value, config.maximize, 0)) {
    state_.best_value = value;
    state_.best_metrics = values;
  }
  if (!experiment_.early_stopping) return;
  const bool stop = stopper_.observe(*monitored(experiment_.early_stopping->monitor, true));
  state_.stopper = stopper_.state();
  if (stop) {
    state_.finished = "stopped_early";
    state_.stop_reason = stopper_.reason();
  }
}

std::optional<double> Trainer::monitored(const std::string& name, bool required) {
  const auto at = std::ranges::find(state_.last_metrics, name, &NamedValues::value_type::first);
  if (at != state_.last_metrics.end()) return at->second;
  std::string known;
  for (const auto& [metric, value] : state_.last_metrics) known += (known.empty() ? "" : ", ") + metric;
  if (required) throw UserError("early_stopping.monitor: no metric is called " + name + "; known: " + known);
  if (!warned_of_monitor_)
    log::warn("checkpoint.monitor: no metric is called " + name + ", so no checkpoint is best; known: " + known);
  warned_of_monitor_ = true;
  return std::nullopt;
}

void Trainer::test() {
  if (parts_.dataset->size(Split::kTest) == 0) return;
  if (tested_.step != state_.step) tested_ = {state_.step, *evaluate(Split::kTest, [] { return false; })};
  const auto& totals = tested_.totals;
  log_row("test", means(totals));
  update(state_.last_metrics, means(totals, "test"));
  const auto accuracy = std::ranges::find(totals, "accuracy", &MetricTotal::name);
  if (accuracy == totals.end()) return;
  test_correct_ = static_cast<int64_t>(std::llround(accuracy->sum));
  test_total_ = accuracy->count;
}

RunEnd Trainer::end() const {
  const auto& world = parts_.communicator.world();
  return {.status = stopping_ ? "preempted" : state_.finished,
          .stop_reason = stopping_ ? "asked to stop; saved, to be resumed" : state_.stop_reason,
          .steps = state_.step,
          .epochs = static_cast<double>(state_.step) / static_cast<double>(steps_per_epoch_),
          .samples = state_.samples,
          .train_seconds = state_.train_seconds,
          .samples_per_second = static_cast<double>(state_.samples) / std::max(state_.train_seconds, 1e-9),
          .metrics = state_.last_metrics,
          .best = state_.best_metrics,
          .test_correct = test_correct_,
          .test_total = test_total_,
          .checkpoint = saved_path_,
          .world_size = world.size,
          .nodes = world.size / world.local_size};
}

}  // namespace ddprun
