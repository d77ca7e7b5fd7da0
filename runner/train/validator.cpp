// SPDX-License-Identifier: MIT
#include "train/validator.h"

#include "base/communication_error.h"
#include "base/log.h"
#include "comm/replicate.h"
#include "config/monitors.h"
#include "metrics/predictions.h"
#include "plugin_host/plugin_call.h"
#include "weights/state_guard.h"

#include <ddprun/error.h>
#include <ddprun/value.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

// Returns the validation split or, if there is none, the test split, as most guides do.
Split evaluation_split(const Dataset& dataset) { return dataset.size(Split::kVal) > 0 ? Split::kVal : Split::kTest; }

Limit evaluation_limit(const TrainerConfig& config) {
  return config.overfit_batches > 0 ? Limit{.batches = config.overfit_batches} : config.val_batches;
}

std::vector<std::string> names_of(const NamedValues& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

double number_of(const NamedValues& values, std::string_view name) {
  const auto at = std::ranges::find(values, name, &NamedValues::value_type::first);
  return at == values.end() ? std::nan("") : at->second;
}

// Puts the averaged weights into the model for a scope, if there are any.
class AveragedWeights {
 public:
  explicit AveragedWeights(Ema& ema) : ema_(ema) { ema_.exchange(); }
  ~AveragedWeights() { ema_.exchange(); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  Ema& ema_;
};

}  // namespace

Validator::Validator(const Context& context, const TrainPlan& plan, TrainState& state, TrainStep& step,
                     ProgressLog& log, Hooks hooks)
    : context_(context),
      plan_(plan),
      state_(state),
      step_(step),
      log_(log),
      hooks_(std::move(hooks)),
      buffers_(buffers(*context.model)),
      evaluator_({context.model, context.dataset, context.evaluation_objective, context.communicator, context.precision,
                  context.device, context.images},
                 context.experiment.trainer),
      stopper_(context.experiment.early_stopping.value_or(EarlyStoppingConfig{})) {}

void Validator::restore() { stopper_.set_state(state_.stopper); }

bool Validator::still_stops() {
  const auto& stopping = context_.experiment.early_stopping;
  const auto& measured = state_.last_metrics;
  if (!stopping) return false;
  const auto last = std::ranges::find(measured, stopping->monitor, &NamedValues::value_type::first);
  return last == measured.end() || stopper_.still_stops(last->second);
}

// Evaluates with rank 0's buffers, which are the checkpoint's: after a training step each rank has BatchNorm statistics
// of its own, and a result that mixes them could not be reproduced from any checkpoint.
std::optional<Evaluation> Validator::evaluate(Split split, const Limit& limit, const Share& share) {
  hooks_.alive();
  context_.communicator.broadcast(buffers_);
  const AveragedWeights weights(step_.ema());
  return run(split, limit, share);
}

// Evaluates the model as it is. What it draws meanwhile is not taken from the training, which is the same without.
std::optional<Evaluation> Validator::run(Split split, const Limit& limit, const Share& share) {
  const StateGuard kept({}, context_.backend.get());
  const auto agreed = [&] { return hooks_.alive(), hooks_.interrupted(split); };
  return evaluator_.run(split, limit, {.agreed = agreed, .give_up = hooks_.give_up}, share);
}

// Throws the first rank's error on all ranks. An error that is not the user's may be that rank's alone, its GPU's say.
void Validator::share(const std::exception_ptr& error) {
  const auto& world = context_.communicator.world();
  std::string mine;
  try {
    if (error) std::rethrow_exception(error);
  } catch (const CommunicationError&) {
    throw;
  } catch (const UserError& problem) {
    mine = problem.what();
  } catch (const std::exception& problem) {
    mine = (world.size > 1 ? log::text("rank ", world.rank, ": ") : "") + cause_of(problem);
  }
  for (const auto& text : context_.communicator.gather_texts(mine)) {
    if (!text.empty()) throw TestError(text);
  }
}

void Validator::sanity_check() {
  const auto split = evaluation_split(*context_.dataset);
  if (context_.dataset->size(split) == 0) return;
  const auto result = evaluate(split, {.batches = context_.experiment.trainer.sanity_batches});
  if (!result) return;
  const auto values = result->values("val");
  require_monitors(values);
  if (!result->is_of_nothing()) require_numbers(values);  // the other batches may have targets that count
}

void Validator::require_monitors(const NamedValues& measured) {
  const auto known = names_of(measured);
  const auto unknown = unknown_monitors(context_.experiment, known);
  refused_ = !unknown.empty();
  if (refused_) throw PluginMistake({unknown.front().key, unknown_metric(unknown.front().metric, known)});
}

void Validator::require_numbers(const NamedValues& measured) const {
  for (const auto& [key, metric, origin] : monitors_of(context_.experiment)) {
    const auto at = std::ranges::find(measured, metric, &NamedValues::value_type::first);
    if (at == measured.end() || !std::isnan(at->second)) continue;
    const auto step = state_.step;
    const auto when = step == 0 ? std::string("before the first step") : log::text("after step ", step);
    throw MonitorIsNan(problem_line(origin, key,
                                    metric + " is NaN " + when +
                                        ", so that it can decide nothing; expected a number. " +
                                        "`ddprun data` counts the samples that are not finite; `ddprun evaluate` "
                                        "measures again"));
  }
}

bool Validator::validate() {
  const auto& config = context_.experiment.trainer;
  const bool due = plan_.all_done(state_) || plan_.due(config.eval_every, state_.step) || state_.evaluation_asked;
  evaluated_.clear();
  const auto split = evaluation_split(*context_.dataset);
  if (!due || context_.dataset->size(split) == 0) {
    log_.log_part(0);
    return true;
  }
  const Stopwatch time;
  const auto evaluation = evaluate(split, evaluation_limit(config));
  if (!evaluation) return false;
  log_.log_part(time.seconds());
  take(*evaluation);
  return true;
}

bool Validator::validate_again() {
  const auto split = evaluation_split(*context_.dataset);
  if (context_.dataset->size(split) == 0) return true;
  const auto evaluation = evaluate(split, evaluation_limit(context_.experiment.trainer));
  if (evaluation) take(*evaluation);
  return evaluation.has_value();
}

// Notes the result of an evaluation, and its consequences.
void Validator::take(const Evaluation& evaluation) {
  const auto& config = context_.experiment.trainer;
  const auto split = evaluation_split(*context_.dataset);
  if (split == Split::kTest && evaluation_limit(config) == config.test_batches) tested_ = {state_.step, evaluation};
  observe(evaluation);
  log_predictions(split);
}

void Validator::log_evaluation(const std::string& split, const Evaluation& evaluation) {
  log_.log_row(split, evaluation.values());
  if (context_.is_rank_zero() && !std::exchange(warned_of_nothing_, evaluation.is_of_nothing()))
    warn_of_nothing(evaluation, split);
  if (!evaluation.confusion.defined()) return;
  const auto step = state_.step;
  context_.loggers.confusion(
      confusion_table(evaluation.confusion, context_.dataset->spec(), split, plan_.epoch_of(step), step));
}

// Logs predictions on rank 0 only, without communication but for averages that each rank has of its own weights;
// restores what it changes, so that training is the same without.
void Validator::log_predictions(Split split) {
  const auto& config = context_.experiment.predictions;
  if (config.batches == 0 || config.images_per_batch == 0) return;
  if (!context_.is_rank_zero() && !step_.share().is_shared()) return;
  const AveragedWeights weights(step_.ema());
  if (!context_.is_rank_zero()) return;
  const StateGuard kept(buffers_, context_.backend.get());
  auto table = evaluator_.sample(split, config, hooks_.give_up);
  if (!table)
    return log::warn(log::text("the predictions after step ", state_.step,
                               " are not logged: asked to stop while waiting for their samples"));
  table->split = "val";
  table->epoch = plan_.epoch_of(state_.step);
  table->step = state_.step;
  context_.loggers.predictions(*table);
}

void Validator::observe(const Evaluation& evaluation) {
  log_evaluation("val", evaluation);
  const auto values = evaluation.values("val");
  require_numbers(values);
  update(state_.last_metrics, values);
  evaluated_ = values;
  const auto config = followed_by_best();
  const auto value = monitored("checkpoint.monitor", config.monitor, false);
  const auto& measured = state_.last_metrics;
  if (std::ranges::find(measured, config.monitor, &NamedValues::value_type::first) != measured.end())
    state_.history.add(config.monitor, state_.step, value.value_or(std::nan("")));
  const Merit merit{value.value_or(std::nan("")), number_of(values, "val/loss")};
  const Merit best{state_.best_value.value_or(std::nan("")), number_of(state_.best_metrics, "val/loss")};
  if (is_better(merit, best, config.maximize)) {
    state_.best_value = value;
    state_.best_metrics = values;
    state_.best_step = state_.step;
    const auto monitor = std::ranges::find(state_.best_metrics, config.monitor, &NamedValues::value_type::first);
    if (monitor != state_.best_metrics.end()) std::rotate(state_.best_metrics.begin(), monitor, std::next(monitor));
  }
  if (context_.experiment.schedule.kind == ScheduleKind::kPlateau) {
    step_.lr().schedule().observe(*monitored("schedule.monitor", context_.experiment.schedule.monitor, true));
    state_.schedule = step_.lr().schedule().state();
  }
  if (!context_.experiment.early_stopping) return;
  const bool stop =
      stopper_.observe(*monitored("early_stopping.monitor", context_.experiment.early_stopping->monitor, true));
  state_.stopper = stopper_.state();
  if (stop) {
    state_.finished = RunStatus::kStoppedEarly;
    state_.stop_reason = stopper_.reason();
  }
}

// Returns what `best` follows: the loss if no metric was chosen and the default one is not measured, since a regression
// has no accuracy.
CheckpointConfig Validator::followed_by_best() const {
  auto config = context_.experiment.checkpoint;
  const auto names = names_of(state_.last_metrics);
  if (is_chosen(context_.experiment, "checkpoint") || std::ranges::find(names, config.monitor) != names.end())
    return config;
  config.monitor = "val/loss";
  config.maximize = false;
  return config;
}

std::optional<double> Validator::monitored(const std::string& key, const std::string& name, bool required) {
  const auto& measured = state_.last_metrics;
  const auto at = std::ranges::find(measured, name, &NamedValues::value_type::first);
  const bool is_known = at != measured.end();
  if (is_known && !std::isnan(at->second)) return at->second;
  const auto problem = key + ": " + (is_known ? name + " is NaN" : unknown_metric(name, names_of(measured)));
  if (required) throw UserError(problem);
  if (!warned_of_monitor_) log::warn(problem + "; no checkpoint is marked as the best");
  warned_of_monitor_ = true;
  return std::nullopt;
}

void Validator::test(Checkpointer& checkpoints) try {
  if (context_.dataset->size(Split::kTest) == 0) return;
  if (state_.best_step == state_.step || test_best(checkpoints)) test_model();
} catch (const TestError& error) {  // any other is this rank's alone: the others would wait for it
  test_error_ = error.what();
}

void Validator::test_model() {
  if (tested_.step != state_.step) {
    const auto& limit = context_.experiment.trainer.test_batches;
    auto result = evaluate(Split::kTest, limit, [this](const auto& error) { share(error); });
    if (!result) return;
    tested_ = {state_.step, *std::move(result)};
  }
  const auto& totals = tested_.result.totals;
  log_evaluation("test", tested_.result);
  const auto values = tested_.result.values("test");
  update(state_.last_metrics, values);
  if (state_.best_step == state_.step) update(state_.best_metrics, values);
  const auto accuracy = std::ranges::find(totals, "accuracy", &MetricTotal::name);
  if (accuracy == totals.end()) return;
  result_ = {.correct = static_cast<int64_t>(std::llround(accuracy->sum)), .total = accuracy->count};
}

// Adds the test of the best checkpoint to the best metrics; returns false if it was interrupted. It has no row: its
// step is over, and the metrics that the test split's rows show last are those of the last checkpoint.
bool Validator::test_best(Checkpointer& checkpoints) {
  bool whole = true;
  if (!state_.best_value) return whole;
  checkpoints.with_weights_of(checkpoint_name(state_.best_step), [&] {
    hooks_.alive();
    const auto& limit = context_.experiment.trainer.test_batches;
    const auto result = run(Split::kTest, limit, [this](const auto& error) { share(error); });
    whole = result.has_value();
    if (whole) update(state_.best_metrics, result->values("test"));
  });
  return whole;
}

}  // namespace ddprun
