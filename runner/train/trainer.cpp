// SPDX-License-Identifier: MIT
#include "train/trainer.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "train/micro_batch_search.h"
#include "train/state_guard.h"

#include <ddprun/error.h>

#include <algorithm>

namespace ddprun {
namespace {

int64_t step_limit(const TrainerConfig& config, int64_t steps_per_epoch) {
  const int64_t by_epochs = config.max_epochs * steps_per_epoch;
  return config.max_steps > 0 ? std::min(config.max_steps, by_epochs) : by_epochs;
}

}  // namespace

Trainer::Trainer(const Experiment& experiment, TrainerParts parts, std::function<bool()> stop_requested)
    : experiment_(experiment),
      parts_(std::move(parts)),
      stop_requested_(std::move(stop_requested)),
      agreement_(parts_.communicator, parts_.clock),
      evaluator_({parts_.model, parts_.dataset, parts_.evaluation_objective, parts_.communicator, parts_.precision,
                  parts_.device, parts_.images},
                 experiment.trainer),
      stopper_(experiment.early_stopping.value_or(EarlyStoppingConfig{})),
      buffers_(buffers(*parts_.model)),
      clock_(parts_.backend ? parts_.backend->make_timer() : nullptr),
      measures_(parts_.backend.get()),
      steps_per_epoch_(step_plan(experiment.trainer, parts_.dataset->size(Split::kTrain)).steps_per_epoch()),
      max_steps_(step_limit(experiment.trainer, steps_per_epoch_)),
      step_({parts_.communicator, parts_.model, parts_.optimizer, parts_.objective, parts_.precision, parts_.device,
             parts_.parallel, &clock_, parts_.backend.get()},
            experiment.trainer,
            Schedule(experiment.schedule, experiment.trainer.global_batch, steps_per_epoch_, max_steps_)),
      profile_(experiment.profile, parts_.run_dir, parts_.communicator.world().rank, parts_.backend != nullptr),
      run_clock_(parts_.command_started_at) {
  state_.global_batch = experiment.trainer.global_batch;
  state_.seed = experiment.seed;
  state_.world_size = parts_.communicator.world().size;
  state_.devices = parts_.parallel ? parts_.parallel->devices() : 1;
  state_.train_samples = parts_.dataset->size(Split::kTrain);
  if (parts_.communicator.world().rank != 0) return;
  for (const auto& warning : step_.schedule().warnings()) log::warn(warning);
}

RunEnd Trainer::run() try {
  if (!over()) begin();
  while (!over()) {
    train_steps();
    if (!stopping_ && at_part_end()) finish_part();
  }
  if (!stopping_ && state_.finished.empty()) {
    state_.finished = "completed";
    state_.stop_reason = "all steps are done";
  }
  save(false);
  if (!stopping_) test();
  finish_saving();
  agreement_.settle();
  phases_ += clock_.take();
  return end();
} catch (const CommunicationError&) {
  throw;
} catch (...) {
  rescue_save();
  throw;
}

// Before the first step of this attempt.
void Trainer::begin() {
  const auto& config = experiment_.trainer;
  require_monitors(state_.last_metrics);  // those of a resumed run
  if (state_.step == 0 && config.sanity_batches > 0) evaluate_a_little();
  if (config.micro_batch == TrainerConfig::kAutoMicroBatch) choose_micro_batch(*source());
  moved(Activity::kComputing);
  if (!parts_.communicator.alone()) warm_up_reducer(*source());
  save_a_way_back();
  start_from_here();
}

std::unique_ptr<TrainLoader> Trainer::source() const {
  return std::make_unique<TrainLoader>(parts_.dataset, experiment_.trainer, experiment_.seed,
                                       parts_.communicator.world(), parts_.device, state_.step,
                                       parts_.images[static_cast<size_t>(Split::kTrain)]);
}

// What goes on from the present step, at the start of an attempt or after a rollback.
void Trainer::start_from_here() {
  const auto& config = experiment_.trainer;
  source_ = source();
  step_.forget_graphs();
  open_.clear();
  handed_in_ = state_.step;
  tested_ = {};
  if (config.verify_shards) {
    shards_.emplace(parts_.communicator, parts_.dataset, step_plan(config, state_.train_samples), state_.step);
  }
  samples_at_row_ = state_.samples;
  seconds_at_row_ = state_.train_seconds;
  clock_.pause();
  phases_ += clock_.take();
}

// Once in a run: a resumed one takes the number that was found, or it would sum its gradients in another order.
void Trainer::choose_micro_batch(TrainLoader& trial) {
  if (state_.micro_batch == 0) {
    const StateGuard kept(buffers_, parts_.backend.get());
    parts_.model->train();
    state_.micro_batch = find_micro_batch(step_, trial.next(), parts_.communicator, parts_.backend.get());
  }
  step_.set_micro_batch(state_.micro_batch);
}

// The reducer finds the order of its buckets in its first step and exchanges gradients in other portions from the
// second on, which changes the rounding of sums over three or more ranks. One step whose result is thrown away puts
// every start of a run, fresh or resumed, behind that: or a resumed run would differ in its first step from one that
// was never stopped.
void Trainer::warm_up_reducer(TrainLoader& rehearsal) {
  const StateGuard kept(buffers_, parts_.backend.get());
  parts_.model->train();
  step_.rehearse(rehearsal.next());
}

bool Trainer::at_epoch_end() const { return state_.step % steps_per_epoch_ == 0; }

bool Trainer::at_part_end() const {
  const bool ended = state_.step >= max_steps_ || !state_.finished.empty();
  const bool boundary = ended || at_epoch_end() || due(experiment_.trainer.eval_every);
  return boundary && state_.step > state_.evaluated_step;
}

bool Trainer::due(const Interval& every, int64_t step) const {
  if (every.steps > 0) return step % every.steps == 0;
  return every.epochs > 0 && step % (steps_per_epoch_ * every.epochs) == 0;
}

bool Trainer::over() const {
  const bool all_done = state_.step >= max_steps_ || !state_.finished.empty();
  return stopping_ || (all_done && !at_part_end());
}

void Trainer::train_steps() {
  parts_.model->train();
  while (!at_part_end() && !stopping_) {
    profile_.before(state_.step + 1);
    train_step();
    agree_after_step();
    profile_.after(state_.step);
  }
  clock_.pause();
}

void Trainer::train_step() try {
  phase_ = "training";
  moved(Activity::kLoadingData);
  since_step_.restart();
  clock_.begin(StepPhase::kData);
  const auto item = source_->next();

  moved(Activity::kComputing);
  if (is_left_out(state_.step + 1)) {
    pass_over();
  } else {
    const bool watched = watch_gradients() || profile_.covers(state_.step + 1);
    open_.push_back({state_.step + 1, item.epoch + 1, item.batch.index, step_.run(item, state_.step, watched)});
    state_.samples += item.global_samples;
  }
  clock_.begin(StepPhase::kOther);

  ++state_.step;
  ++steps_measured_;
  if (shards_) shards_->add(item);
  clock_.begin(StepPhase::kLogging);
  if (at_part_end() || state_.step % experiment_.trainer.log_every == 0) log_window();
  if (!gradients_.empty()) log_histograms();
  show_progress("train");
  clock_.begin(StepPhase::kOther);
  state_.train_seconds = train_seconds();
} catch (const std::exception& error) {
  if (is_out_of_memory(error)) throw OutOfMemory(out_of_memory_text(error, state_.step + 1, experiment_.trainer));
  throw;
}

// What all ranks decide together: to stop, to save, that the time is over.
void Trainer::agree_after_step() {
  moved(Activity::kAgreeing);
  const auto& every = experiment_.checkpoint.every;
  const bool by_clock = every.seconds > 0 && since_save_.seconds() >= every.seconds;
  const auto limit = experiment_.trainer.max_seconds;
  const bool time_over = limit > 0 && state_.train_seconds >= limit;
  Flags mine{.stop = stop_requested_(),
             .save = by_clock,
             .time_over = time_over,
             .save_failed = parts_.checkpoints.failed(),
             .measure = measure_is_due()};
  const auto flags = agree(mine);
  if (flags.save_failed) finish_saving();
  if (flags.measure) log_measures();
  stopping_ = flags.stop;
  if (!close_agreed(flags)) return;
  if (flags.time_over && !stopping_) {
    state_.finished = "completed";
    state_.stop_reason = "trainer.max_time is over";
    return;
  }
  const bool by_step = every.steps > 0 && due(every);
  if (!stopping_ && !at_part_end() && (by_step || flags.save)) save(false);
}

// With what was raised since the last exchange where there is one after this step, else nothing.
Flags Trainer::agree(Flags mine) {
  if (agreement_.due()) {
    hand_in(mine);
    return agreement_.exchange(mine);
  }
  agreement_.keep(mine);
  return {};
}

void Trainer::moved(Activity activity) const {
  if (parts_.moved) parts_.moved(activity, state_.step);
}

int64_t Trainer::epoch_of_step() const { return state_.step == 0 ? 1 : (state_.step - 1) / steps_per_epoch_ + 1; }

// Evaluates, decides on stopping, counts the part, saves. Interrupted, it leaves the evaluation to the resumed run.
void Trainer::finish_part() {
  if (!settle_steps()) return;
  log_measures();
  const auto before = state_.best_value;
  if (!evaluate_part()) return;
  const bool improved = state_.best_value != before;
  if (shards_ && at_epoch_end()) shards_->check(epoch_of_step(), experiment_);
  state_.evaluated_step = state_.step;
  if (due(experiment_.checkpoint.every) || improved) save(improved);
}

RunEnd Trainer::end() const {
  const auto& world = parts_.communicator.world();
  return {.status = stopping_ ? "preempted" : state_.finished,
          .stop_reason = stopping_ ? "asked to stop; saved, to be resumed" : state_.stop_reason,
          .steps = state_.step,
          .epochs = static_cast<double>(state_.step) / static_cast<double>(steps_per_epoch_),
          .samples = state_.samples,
          .total_seconds = run_clock_.seconds(),
          .train_seconds = state_.train_seconds,
          .samples_per_second = static_cast<double>(state_.samples) / std::max(state_.train_seconds, 1e-9),
          .metrics = state_.last_metrics,
          .best = state_.best_metrics,
          .best_step = state_.best_step,
          .test_correct = test_correct_,
          .test_total = test_total_,
          .checkpoint = saved_path_,
          .world_size = world.size,
          .nodes = world.nodes};
}

}  // namespace ddprun
