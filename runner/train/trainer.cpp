// SPDX-License-Identifier: MIT
#include "train/trainer.h"

#include "base/log.h"
#include "train/checkpointer.h"
#include "train/machine_check.h"
#include "train/master_weights.h"
#include "train/memory_plan.h"
#include "train/out_of_memory.h"
#include "train/trials.h"

#include <ddprun/error.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

std::vector<std::shared_ptr<Model>> models_of(const Context& context) {
  return context.parallel ? context.parallel->models() : std::vector{context.model};
}

Schedule schedule_of(const Context& context, const TrainPlan& plan) {
  return {context.experiment.schedule, context.experiment.trainer.global_batch, plan.steps_per_epoch(),
          plan.max_steps(), context.optimizer->groups().front().lr};
}

// Has the ranks share the optimizer with trainer.shard_optimizer. What stays frozen to the end has no state.
OptimizerShare share_of(const Context& context, const Freezing& freezing) {
  const auto trains = [&](const std::string& name) { return freezing.ever_trains(name); };
  OptimizerShare share;
  if (context.experiment.trainer.shard_optimizer) {
    share = OptimizerShare(*context.optimizer, context.communicator, trains);
    if (context.is_rank_zero()) log::info(share.text());
  }
  if (auto* masters = dynamic_cast<MasterWeights*>(context.optimizer.get()))
    masters->keep_only([&](const std::string& name) { return trains(name) && share.is_own(name); });
  return share;
}

BaseWeights base_of(const Context& context, const Freezing& freezing) {
  if (!context.experiment.checkpoint.only_trainable || !context.is_rank_zero()) return {};
  return {*context.model, freezing, context.first_weights};
}

TrainState first_state(const Context& context) {
  return {.global_batch = context.experiment.trainer.global_batch,
          .batch_per_worker = context.experiment.trainer.batch_per_worker,
          .seed = context.experiment.seed,
          .shards = context.experiment.trainer.shards,
          .threads = at::get_num_threads(),
          .world_size = context.communicator.world().size,
          .devices = context.devices(),
          .train_samples = context.dataset->size(Split::kTrain)};
}

}  // namespace

Trainer::Trainer(Context context, std::vector<NamedCallback> callbacks, std::function<bool()> stop_requested,
                 Agreement::Clock clock)
    : context_(std::move(context)),
      experiment_(context_.experiment),
      stop_requested_(std::move(stop_requested)),
      plan_(experiment_.trainer, context_.dataset->size(Split::kTrain)),
      freezing_(models_of(context_), experiment_.pretrained, plan_.steps_per_epoch()),
      base_(base_of(context_, freezing_)),
      recomputation_(models_of(context_), experiment_.trainer.recompute),
      state_(first_state(context_)),
      timer_(context_.backend ? context_.backend->make_timer() : nullptr),
      step_(context_, timer_, schedule_of(context_, plan_), share_of(context_, freezing_)),
      log_(context_, plan_, state_, step_, timer_),
      agreement_(context_.communicator, std::move(clock)),
      nonfinite_(context_, state_),
      replicas_(context_, step_.ema(), step_.share(), base_),
      digests_(context_.run_dir, {context_.communicator.world().size, machine_text(context_)}),
      recorder_(context_, replicas_),
      callbacks_(std::move(callbacks), context_.communicator),
      checkpoints_(context_, step_, callbacks_, base_, [this] { enter("saving", Activity::kSaving); }),
      validator_(context_, plan_, state_, step_, log_,
                 {.alive = [this] { enter("evaluating", Activity::kEvaluating); },
                  .interrupted = [this](Split split) { return interrupted(split); },
                  .give_up = [this] { return out_of_patience(); }}),
      profiler_(experiment_.profile, context_.run_dir, context_.communicator.world().rank, context_.backend != nullptr),
      run_clock_(context_.command_started_at) {
  if (!context_.is_rank_zero()) return;
  for (const auto& warning : step_.lr().schedule().warnings()) log::warn(warning);
  for (const auto& warning : freezing_.warnings(plan_.max_steps())) log::warn(warning);
}

RunEnd Trainer::run() try {
  start_callbacks();
  if (!over()) begin();
  while (!over()) {
    context_.model->train();
    while (!at_part_end() && !stopping_) train_step();
    timer_.pause();
    if (!stopping_ && at_part_end()) finish_part();
  }
  if (!stopping_ && !state_.finished) {
    state_.finished = RunStatus::kCompleted;
    state_.stop_reason = "all steps are done";
  }
  if (!experiment_.is_range_test()) {
    save(false);
    if (!stopping_) test();
    finish_saving();
  }
  agreement_.settle();
  log_.take_phases();
  if (stopping_) drop_loader();
  return end();
} catch (const CommunicationError&) {
  throw;
} catch (...) {
  checkpoints_.rescue();
  throw;
}

void Trainer::test() try {
  test_ = validator_.test(
      [this](int64_t step, const auto& use) { checkpoints_.with_weights_of(checkpoint_name(step), use); });
} catch (const TestError& error) {  // any other is this rank's alone: the others would wait for it
  test_error_ = error.what();
}

void Trainer::start_callbacks() {
  const auto& world = context_.communicator.world();
  callbacks_.start({.model = context_.model,
                    .dataset = context_.dataset,
                    .rank = world.rank,
                    .world_size = world.size,
                    .step = state_.step,
                    .steps_per_epoch = plan_.steps_per_epoch(),
                    .max_steps = plan_.max_steps(),
                    .global_batch = state_.global_batch});
}

// Prepares this attempt, before its first step. Its trials are steps whose results are discarded.
void Trainer::begin() try {
  const auto& config = experiment_.trainer;
  validator_.require_monitors(state_.last_metrics);  // from a resumed run
  if (state_.step == 0 && config.sanity_batches > 0) validator_.sanity_check();
  if (stopping_) return;
  enter_phase(state_.step);
  if (recomputation_.is_asked_for()) choose_recomputed();
  if (config.micro_batch == TrainerConfig::kAutoMicroBatch) choose_micro_batch();
  if (recomputation_.has_chosen()) compare_recomputed();
  if (step_.share().is_shared()) try_weights();
  on_activity(Activity::kComputing);
  if (config.shards > 0) require_same_machines(context_, step_, state_);
  warm_up();
  rehearse_smallest_part();
  if (stopping_) return;
  nonfinite_.start();
  const bool needs_a_way_back = config.on_nonfinite == OnNonfinite::kRollback && !checkpoints_.is_own();
  if (needs_a_way_back) save_now(false);
  if (config.verify_shards)
    shards_.emplace(context_.communicator, context_.dataset, step_plan(config, state_.train_samples), state_.step);
  log_.start();
} catch (const std::exception& error) {
  rethrow_of_steps(error, "in a trial before the first step");
}

// Says what is held besides what the step takes.
void Trainer::rethrow_of_steps(const std::exception& error, const std::string& during) const {
  if (!is_out_of_memory(error)) throw;
  const auto state = in_plugin({"optimizer", "state"}, [&] { return context_.optimizer->state(); });
  const auto held = held_memory(*context_.model, state, step_.ema().state());
  const auto advice =
      advice_for_steps(experiment_.trainer, state_.micro_batch, state_.world_size, recomputation_.could_choose());
  rethrow_with_advice(error, during, advice, "Besides activations, a worker holds " + held_text(held) + ".\n");
}

// Chooses the blocks that are computed again, among those that the model has. What auto found belongs to what
// micro_batch: auto did.
void Trainer::choose_recomputed() {
  const auto* batch = next_batch();
  if (!batch) return;
  ask_for_blocks(context_, step_, *batch, recomputation_);
  recomputation_.choose();
  if (recomputation_.is_auto() && state_.recomputes) recomputation_.choose_all();
}

void Trainer::compare_recomputed() {
  if (const auto* batch = next_batch()) compare_blocks(context_, step_, *batch);
  if (context_.is_rank_zero()) log::info(recomputation_.text());
}

void Trainer::try_weights() {
  if (const auto* batch = next_batch()) try_late_weights(context_, *batch);
}

// Finds the micro-batch, once in a run: a resumed one uses the number that was found, since otherwise it would sum its
// gradients in another order. It must fit once everything that ever trains does.
void Trainer::choose_micro_batch() {
  if (state_.micro_batch == 0) {
    const auto* batch = next_batch();
    if (!batch) return;
    if (freezing_.enter_last()) step_.take_parameters();
    state_.micro_batch = find_micro_batch(context_, step_, *batch, recomputation_);
    state_.recomputes = recomputation_.is_auto() && recomputation_.has_chosen();
    enter_phase(state_.step);
  }
  step_.set_micro_batch(state_.micro_batch);
}

// Freezes and unfreezes for the step after this many.
void Trainer::enter_phase(int64_t step) {
  if (!freezing_.enter(step)) return;
  log_.work().forget();
  step_.take_parameters();
  warmed_up_ = false;
}

// Unfreezes what trains from here on.
void Trainer::unfreeze() {
  enter_phase(state_.step);
  warm_up();
  log_.event("unfrozen", freezing_.text());
  if (context_.is_rank_zero()) log::info("pretrained.unfreeze: " + freezing_.text());
}

void Trainer::warm_up() {
  if (stopping_ || std::exchange(warmed_up_, true) || !context_.communicator.is_distributed()) return;
  if (const auto* batch = next_batch()) warm_up_reducer(context_, step_, *batch);
}

// Returns the batch of the next step, for that step and for what is tried before it; or null, on all ranks, if one of
// them was told to end and gets no samples: then the state after the last step is the one to save.
const TrainBatch* Trainer::next_batch() {
  if (next_) return &*next_;
  if (!loader_)
    loader_ = std::make_unique<TrainLoader>(context_.dataset, experiment_.trainer, experiment_.seed,
                                            context_.communicator.world(), context_.device, state_.step,
                                            context_.images[static_cast<size_t>(Split::kTrain)],
                                            LeftOut{experiment_.record.steps.last - 1, experiment_.record.without});
  const Stopwatch time;
  const auto give_up = [this] { return out_of_patience(); };
  next_ = loader_->next_unless(agreement_.asks_for_samples() ? give_up : std::function<bool()>());
  if (agreement_.have_samples(next_.has_value(), time.seconds())) return &*next_;
  stopping_ = true;
  drop_loader();
  return nullptr;
}

void Trainer::drop_loader() {
  next_.reset();
  drop(loader_);
}

// Returns whether this rank, waiting for samples, was told to end and has waited long enough since.
bool Trainer::out_of_patience() {
  constexpr double kPatienceSeconds = 1;
  if (!told_ && stop_requested_()) told_.emplace();
  return told_ && told_->seconds() > kPatienceSeconds;
}

// Computes on as few samples as a rank will have in the last batch of an epoch, if those are fewer than in the others.
// Some layers need more than one, and would end the run after its first epoch. Those that look at the samples of all
// ranks get as many here as all will have together.
void Trainer::rehearse_smallest_part() {
  const auto& config = experiment_.trainer;
  const auto plan = step_plan(config, state_.train_samples);
  const auto world = context_.communicator.world().size;
  const auto smallest = [&](int64_t step) {
    return plan.smallest_part(step, world, std::max<int64_t>(state_.micro_batch, config.micro_batch),
                              config.sync_batchnorm);
  };
  const auto samples = smallest(plan.steps_per_epoch() - 1);
  if (stopping_ || samples >= smallest(0)) return;
  const auto* batch = next_batch();
  if (batch && batch->size() >= samples) rehearse(context_, step_, *batch, samples);
}

void Trainer::train_step() try {
  if (freezing_.is_due(state_.step)) unfreeze();
  profiler_.before(state_.step + 1);
  enter("training", Activity::kLoadingData);
  log_.begin_step();
  timer_.begin(StepPhase::kData);
  if (stopping_ || !next_batch()) return;
  const auto batch = *std::exchange(next_, std::nullopt);

  on_activity(Activity::kComputing);
  at::Tensor loss;
  const bool skipped = nonfinite_.skips(state_.step + 1), recorded = !skipped && recorder_.covers(state_.step + 1);
  if (skipped) {
    step_.skip(state_.step);
    ++state_.skipped;
  } else {
    const bool watched = log_.watch_gradients() || profiler_.covers(state_.step + 1) || recorded;
    if (recorded) {
      step_.settle_weights();
      recorder_.begin(state_.step + 1, batch);
      step_.record(recorder_);
    }
    log_.work().before_run(batch, step_);
    auto outcome = step_.run(batch, state_.step, watched);
    if (recorded) end_record();
    if (!callbacks_.empty()) loss = outcome.mean_loss();
    nonfinite_.open({state_.step + 1, batch.epoch + 1, batch.batch.index, std::move(outcome)});
    log_.work().add(batch.global_samples);
  }
  timer_.begin(StepPhase::kOther);

  ++state_.step;
  if (shards_) shards_->add(batch);
  log_step(recorded);
  timer_.begin(StepPhase::kOther);
  agree_after_step(loss);
  profiler_.after(state_.step);
} catch (const std::exception& error) {
  rethrow_of_steps(error, log::text("in step ", state_.step + 1));
}

void Trainer::end_record() {
  step_.settle_weights();
  recorder_.end();
}

void Trainer::log_step(bool recorded) {
  const bool row_is_due = at_part_end() || state_.step % experiment_.trainer.log_every == 0;
  if (row_is_due) {
    timer_.begin(StepPhase::kWait);
    step_.settle_weights();
  }
  timer_.begin(StepPhase::kLogging);
  if ((row_is_due || recorded) && settle()) {
    compare_replicas();
    if (row_is_due) log_.log_window();
    if (row_is_due) watch_range_test();
  }
  log_.end_step();
}

// Decides with all ranks: to stop, to save, that the time is over. Up to that decision, in which the host waits for the
// GPU, the time is the step's.
void Trainer::agree_after_step(const at::Tensor& loss) {
  on_activity(Activity::kAgreeing);
  const auto& every = experiment_.checkpoint.every;
  const auto limit = experiment_.trainer.max_seconds;
  const auto flags = agree({.stop = stop_requested_(),
                            .save = every.seconds > 0 && checkpoints_.seconds_since() >= every.seconds,
                            .time_over = limit > 0 && log_.train_seconds() >= limit,
                            .save_failed = checkpoints_.failed(),
                            .measure = log_.system_row_is_due()});
  log_.end_training();
  if (flags.save_failed) finish_saving();
  if (flags.measure) log_.log_system();
  stopping_ = flags.stop;
  nonfinite_.learn(flags);
  if (!close_steps()) return;
  if (!callbacks_.empty()) call_back(loss);
  if (flags.time_over && !stopping_) {
    state_.finished = RunStatus::kCompleted;
    state_.stop_reason = "trainer.max_time is over";
    return;
  }
  const bool by_step = every.steps > 0 && due(every);
  const bool is_due = by_step || flags.save || save_asked_;
  if (!stopping_ && !at_part_end() && is_due) save(false);
}

void Trainer::call_back(const at::Tensor& loss) {
  step_.settle_weights();
  obey(callbacks_.after_step({.epoch = plan_.epoch_of(state_.step),
                              .step = state_.step,
                              .samples = state_.samples,
                              .lr = step_.lr().values().front().second,
                              .loss = loss}));
}

// Does what callbacks ask for: at once, or at the end of this part.
void Trainer::obey(const Requests& requests) {
  step_.lr().set_factor(callbacks_.lr_factor());
  save_asked_ |= requests.save;
  state_.evaluation_asked |= requests.evaluate && state_.step > state_.evaluated_step;
  if (!requests.stop.empty()) stop_early(requests.stop);
}

void Trainer::stop_early(const std::string& reason) {
  if (state_.finished) return;
  state_.finished = RunStatus::kStoppedEarly;
  state_.stop_reason = reason;
}

// Ends a range test whose loss diverges, by the loss that the last row has of all ranks.
void Trainer::watch_range_test() {
  if (!experiment_.is_range_test()) return;
  const auto loss = std::ranges::find(state_.last_metrics, "train/loss", &NamedValues::value_type::first);
  if (loss == state_.last_metrics.end()) return;
  if (const auto reason = range_test_.observe(loss->second)) stop_early(*reason);
}

// Exchanges the flags raised since the last exchange if one is due after this step; else returns nothing.
Flags Trainer::agree(Flags mine) {
  if (agreement_.due()) {
    nonfinite_.hand_in(mine);
    const auto ahead = agreement_.steps_ahead();
    const bool is_ready = loader_->ready(ahead) >= ahead;
    mine.may_wait = ahead <= experiment_.trainer.prefetch_batches && !is_ready;
    return agreement_.exchange(mine);
  }
  agreement_.keep(mine);
  return {};
}

void Trainer::compare_replicas() {
  const auto digest = replicas_.check(state_.step);
  if (context_.is_rank_zero()) digests_.add(state_.step, digest);
}

// Finishes a part: evaluates, decides on stopping, counts the part, saves. If interrupted, it leaves the evaluation to
// the resumed run.
void Trainer::finish_part() {
  if (!settle()) return;
  log_.log_system();
  if (experiment_.is_range_test()) {
    state_.evaluated_step = state_.step;
    return log_.log_part(0);
  }
  const auto before = state_;
  bool changed = finish_callbacks();
  if (!validate()) return;
  count_part();
  if (plan_.all_done(state_) && callbacks_.have_to_finish()) {  // only this evaluation has ended the run
    changed = true;
    if (!evaluate_changed(before)) return;
  }
  const bool improved = state_.best_step != before.best_step || state_.best_value != before.best_value;
  if (shards_ && plan_.is_epoch_end(state_.step)) shards_->check(plan_.epoch_of(state_.step), experiment_);
  if (changed) {
    save_now(improved);
  } else if (due(experiment_.checkpoint.every) || improved || save_asked_) {
    save(improved);
  }
}

// Returns false if the evaluation was interrupted. Where it gives no number to follow, the weights are saved before
// that ends the run: with another monitor or mended data it resumes.
bool Trainer::validate() try { return validator_.validate(); } catch (const MonitorIsNan&) {
  save(false);
  finish_saving();
  throw;
}

// Lets callbacks change the weights, if all steps are done. What they do may fail: the weights are on the disk before.
bool Trainer::finish_callbacks() {
  if (!plan_.all_done(state_) || !callbacks_.have_to_finish()) return false;
  save(false);
  finish_saving();
  callbacks_.finish();
  return true;
}

// Returns whether an evaluation under way is to be left to the resumed run. Collective.
bool Trainer::interrupted(Split split) {
  if (state_.step > 0) log_.show_progress(split == Split::kTest && state_.finished ? "test" : "val");
  if (agreement_.exchange({.stop = stop_requested_()}).stop) stopping_ = true;
  return stopping_;
}

void Trainer::count_part() {
  state_.evaluated_step = state_.step;
  state_.evaluation_asked = false;
  if (validator_.evaluated().empty()) return;
  obey(callbacks_.after_evaluation(
      {.split = "val", .epoch = plan_.epoch_of(state_.step), .step = state_.step, .metrics = validator_.evaluated()}));
}

// Lets callbacks change the weights after an evaluation, and evaluates those: the best may be these, not the ones
// before.
bool Trainer::evaluate_changed(const TrainState& before) {
  state_.best_value = before.best_value;
  state_.best_metrics = before.best_metrics;
  state_.best_step = before.best_step;
  state_.evaluated_step = before.evaluated_step;
  finish_callbacks();
  if (!validator_.validate_again()) return false;
  state_.evaluated_step = state_.step;
  return true;
}

void Trainer::save(bool best) {
  if (checkpoints_.step() != state_.step || best) save_now(best);
}

void Trainer::save_now(bool best) {
  enter("saving", Activity::kSaving);
  save_asked_ = false;
  if (!settle()) return;
  if (const auto problem = nonfinite_.problem_of_weights()) throw UserError(*problem);
  compare_replicas();  // what a failed attempt restarts from
  log_.save_window();
  state_.skipped_without_overflow = step_.skipped();
  state_.clock = run_clock_.state();
  state_.memory_format = context_.precision.memory_format();
  state_.scaler = step_.scaler().state();
  checkpoints_.save(state_, best);
  log_.event("checkpoint", checkpoint_name(state_.step) + (best ? ", the best so far" : ""));
}

void Trainer::finish_saving() {
  phase_ = "saving";
  checkpoints_.finish();
}

void Trainer::restore(const Checkpoint& checkpoint, const std::string& path) {
  state_ = TrainState::from_json(checkpoint.progress, path);
  state_.require_same_run(experiment_, context_.dataset->size(Split::kTrain), path);
  state_.batch_per_worker = experiment_.trainer.batch_per_worker;
  tell_of_other_threads(path);
  run_clock_.set_state(state_.clock);
  validator_.restore();
  step_.lr().schedule().set_state(state_.schedule);
  step_.set_scaler_state(state_.scaler);
  step_.set_skipped(state_.skipped_without_overflow);
  enter_phase(std::max<int64_t>(0, state_.step - 1));  // that of the last step, whose averages the checkpoint has
  checkpoints_.restore(checkpoint, state_, path);
  log_.restore_window();
  adopt_world();
  step_.lr().set_factor(callbacks_.lr_factor());
  const auto time = experiment_.trainer.max_seconds;
  const bool time_over = time > 0 && state_.train_seconds >= time;
  const bool more_to_do = state_.finished == RunStatus::kCompleted && state_.step < plan_.max_steps() && !time_over;
  const bool stops_no_more =
      state_.finished == RunStatus::kStoppedEarly && callbacks_.empty() && !validator_.still_stops();
  if (more_to_do || stops_no_more) state_.finished.reset();
  if (!plan_.all_done(state_)) callbacks_.reopen();
}

// Warns that the rest of a run with shards has other bits than it would have had.
void Trainer::tell_of_other_threads(const std::string& path) {
  const int64_t before = std::exchange(state_.threads, at::get_num_threads());
  if (state_.shards == 0 || before == state_.threads || !context_.is_rank_zero()) return;
  log::warn(log::text("launch.threads is ", state_.threads, ", but ", path, " was saved with ", before,
                      ": from here on the bits are not those that trainer.shards would have given with ", before));
}

// Notes the ranks that continue.
void Trainer::adopt_world() {
  const auto& world = context_.communicator.world();
  const auto devices = context_.devices();
  const bool same_parts = state_.world_size == world.size && state_.devices == devices;
  if (!same_parts) state_.micro_batch = 0;  // another number fits into memory now
  state_.world_size = world.size;
  state_.devices = devices;
}

// Settles weights and all open steps, before anybody reads them. This and the next two return whether training
// continues: false where a range test ends.
bool Trainer::settle() {
  step_.settle_weights();
  log_.count([this] { nonfinite_.settle(); });
  return close_steps();
}

// Closes the steps that all ranks know of.
bool Trainer::close_steps() {
  while (const auto verdict = nonfinite_.next(checkpoints_.step())) {
    if (!act_on(*verdict)) return false;
  }
  return true;
}

bool Trainer::act_on(const NonfinitePolicy::Verdict& verdict) {
  using Action = NonfinitePolicy::Action;
  const auto& [action, step, event, found, error] = verdict;
  if (experiment_.is_range_test() && action == Action::kStop) {
    stop_early(found);
    return false;
  }
  const auto file = event_file(context_.run_dir, step.step);
  try {
    if (context_.is_rank_zero() && action != Action::kKeep)
      write_event(event, experiment_.trainer.on_nonfinite, checkpoints_.step(), file);
  } catch (const std::exception& problem) {
    // The next attempt would not know of the rollback. Otherwise the step's problem matters more than this.
    if (action == Action::kRollBack) throw UserError(found + "; training cannot roll back: " + problem.what());
    log::warn(problem.what());
  }
  switch (action) {
    case Action::kKeep:
      log_.add(step.outcome);
      state_.skips_in_row = 0;
      break;
    case Action::kSkip:
      ++state_.skips_in_row;
      ++state_.skipped;
      log_.event("nonfinite", found + "; the step is skipped");
      if (context_.is_rank_zero()) log::warn(found + ". The step is skipped; its batch is in " + file.string());
      break;
    case Action::kRollBack: roll_back(verdict);
    case Action::kStop: throw UserError(error);
  }
  return true;
}

// Ends this attempt on all ranks. The launcher starts the next one from the last checkpoint.
void Trainer::roll_back(const NonfinitePolicy::Verdict& verdict) {
  const auto text = log::text("rolling back to step ", checkpoints_.step());
  if (context_.is_rank_zero())
    log::warn(log::text(verdict.found, "; ", text, ", to skip that batch; it is in ",
                        event_file(context_.run_dir, verdict.step.step).string()));
  log_.event("rollback", verdict.found + "; " + text);
  finish_saving();
  throw RollBack();
}

void Trainer::enter(const char* phase, Activity activity) {
  phase_ = phase;
  on_activity(activity);
}

void Trainer::on_activity(Activity activity) const {
  if (context_.on_activity) context_.on_activity(activity, state_.step);
}

RunEnd Trainer::end() const {
  const auto& work = state_.work;
  const auto seconds = std::max(state_.train_seconds, 1e-9);
  const auto samples_per_second = static_cast<double>(state_.samples) / seconds;
  const auto& world = context_.communicator.world();
  const auto untested = test_error_.empty() ? "" : "; the test failed: " + test_error_;
  return {.status = std::string(word_of(stopping_ ? RunStatus::kPreempted : *state_.finished)),
          .stop_reason = !stopping_                    ? state_.stop_reason + untested
                         : experiment_.is_range_test() ? "asked to stop"
                                                       : "asked to stop; saved and resumable",
          .steps = state_.step,
          .epochs = static_cast<double>(state_.step) / static_cast<double>(plan_.steps_per_epoch()),
          .samples = state_.samples,
          .total_seconds = run_clock_.seconds(),
          .train_seconds = state_.train_seconds,
          .samples_per_second = samples_per_second,
          .tokens_per_second = samples_per_second * static_cast<double>(work.tokens_per_sample),
          .model_flops_per_second = work.flops / seconds,
          .mfu = work.possible > 0 ? work.flops / work.possible : 0,
          .metrics = state_.last_metrics,
          .best = state_.best_metrics,
          .best_step = state_.best_step,
          .test_correct = test_.correct,
          .test_total = test_.total,
          .checkpoint = checkpoints_.path(),
          .world_size = world.size,
          .nodes = world.nodes};
}

}  // namespace ddprun
