// SPDX-License-Identifier: MIT
// Trainer's part that measures: validation, what follows from it, and the test.
#include "base/log.h"
#include "config/monitors.h"
#include "metrics/predictions.h"
#include "plugin_host/plugin_call.h"
#include "train/state_guard.h"
#include "train/trainer.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

// The validation split, or where there is none the test split, as most guides do.
Split evaluation_split(const Dataset& dataset) { return dataset.size(Split::kVal) > 0 ? Split::kVal : Split::kTest; }

Limit evaluation_limit(const TrainerConfig& config) {
  return config.overfit_batches > 0 ? Limit{.batches = config.overfit_batches} : config.val_batches;
}

std::vector<std::string> names_of(const NamedValues& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

// The averaged weights in the model for a scope, where there are any.
class AveragedWeights {
 public:
  explicit AveragedWeights(Ema* average) : average_(average) {
    if (average_) average_->exchange();
  }
  ~AveragedWeights() {
    if (average_) average_->exchange();
  }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  Ema* average_;
};

}  // namespace

// With rank 0's buffers, which are the checkpoint's: after a training step each rank has BatchNorm statistics of its
// own, and a result that mixes them could not be had again from any checkpoint.
std::optional<Evaluation> Trainer::evaluate(Split split, const Limit& limit, const std::function<bool()>& interrupted) {
  phase_ = "evaluating";
  moved(Activity::kEvaluating);
  parts_.communicator.broadcast(buffers_);
  const AveragedWeights weights(step_.average());
  return evaluator_.run(split, limit, [&] {
    moved(Activity::kEvaluating);
    return interrupted();
  });
}

// A mistake in the evaluation, or in what follows its metrics, shows now and not after the first epoch. Nothing of it
// is kept.
void Trainer::evaluate_a_little() {
  const auto split = evaluation_split(*parts_.dataset);
  if (parts_.dataset->size(split) == 0) return;
  const auto result = evaluate(split, {.batches = experiment_.trainer.sanity_batches}, [] { return false; });
  require_monitors(values_of(result->totals, "val"));
}

void Trainer::require_monitors(const NamedValues& measured) {
  const auto known = names_of(measured);
  const auto unknown = unknown_monitors(experiment_, known);
  refused_ = !unknown.empty();
  if (refused_) throw PluginMistake({unknown.front().key, unknown_metric(unknown.front().metric, known)});
}

// Where an evaluation is due. False where it was interrupted.
bool Trainer::evaluate_part() {
  const bool last = state_.step >= max_steps_ || !state_.finished.empty();
  const auto split = evaluation_split(*parts_.dataset);
  if ((!last && !due(experiment_.trainer.eval_every)) || parts_.dataset->size(split) == 0) {
    log_part(0);
    return true;
  }
  const Stopwatch time;
  const auto evaluation =
      evaluate(split, evaluation_limit(experiment_.trainer), [this] { return evaluation_interrupted(); });
  if (!evaluation) return false;
  log_part(time.seconds());
  if (split == Split::kTest && evaluation_limit(experiment_.trainer).none()) tested_ = {state_.step, *evaluation};
  observe(*evaluation);
  log_predictions(split);
  return true;
}

bool Trainer::evaluation_interrupted() {
  show_progress("val");
  if (agreement_.exchange({.stop = stop_requested_()}).stop) stopping_ = true;
  return stopping_;
}

void Trainer::log_evaluation(const std::string& split, const Evaluation& evaluation) {
  log_row(split, values_of(evaluation.totals));
  if (!evaluation.confusion.defined()) return;
  parts_.loggers.confusion(
      confusion_table(evaluation.confusion, parts_.dataset->spec(), split, epoch_of_step(), state_.step));
}

// Rank 0 alone, without a word to the others; what it changes is put back, so that the training is the same without.
void Trainer::log_predictions(Split split) {
  const auto& config = experiment_.predictions;
  if (parts_.communicator.world().rank != 0 || config.batches == 0 || config.images_per_batch == 0) return;
  const StateGuard kept(buffers_, parts_.backend.get());
  const AveragedWeights weights(step_.average());
  auto table = evaluator_.sample(split, config);
  table.split = "val";
  table.epoch = epoch_of_step();
  table.step = state_.step;
  parts_.loggers.predictions(table);
}

void Trainer::observe(const Evaluation& evaluation) {
  log_evaluation("val", evaluation);
  const auto values = values_of(evaluation.totals, "val");
  update(state_.last_metrics, values);
  const auto config = followed_by_best();
  const auto value = monitored("checkpoint.monitor", config.monitor, false);
  if (value && improves(*value, state_.best_value, config.maximize, 0)) {
    state_.best_value = value;
    state_.best_metrics = values;
    state_.best_step = state_.step;
    const auto monitor = std::ranges::find(state_.best_metrics, config.monitor, &NamedValues::value_type::first);
    if (monitor != state_.best_metrics.end()) std::rotate(state_.best_metrics.begin(), monitor, std::next(monitor));
  }
  if (experiment_.schedule.name == "plateau") {
    step_.schedule().observe(*monitored("schedule.monitor", experiment_.schedule.monitor, true));
    state_.schedule = step_.schedule().state();
  }
  if (!experiment_.early_stopping) return;
  const bool stop = stopper_.observe(*monitored("early_stopping.monitor", experiment_.early_stopping->monitor, true));
  state_.stopper = stopper_.state();
  if (stop) {
    state_.finished = "stopped_early";
    state_.stop_reason = stopper_.reason();
  }
}

// The loss where nobody has chosen a metric and the default one is not measured: a regression has no accuracy.
CheckpointConfig Trainer::followed_by_best() const {
  auto config = experiment_.checkpoint;
  const auto names = names_of(state_.last_metrics);
  if (is_chosen(experiment_, "checkpoint") || std::ranges::find(names, config.monitor) != names.end()) return config;
  config.monitor = "val/loss";
  config.maximize = false;
  return config;
}

std::optional<double> Trainer::monitored(const std::string& key, const std::string& name, bool required) {
  const auto at = std::ranges::find(state_.last_metrics, name, &NamedValues::value_type::first);
  if (at != state_.last_metrics.end()) return at->second;
  const auto problem = key + ": " + unknown_metric(name, names_of(state_.last_metrics));
  if (required) throw UserError(problem);
  if (!warned_of_monitor_) log::warn(problem + ". No checkpoint is best");
  warned_of_monitor_ = true;
  return std::nullopt;
}

void Trainer::test() {
  if (parts_.dataset->size(Split::kTest) == 0) return;
  const Limit limit = experiment_.trainer.fast_dev_run ? Limit{.batches = 1} : Limit{};
  if (tested_.step != state_.step) tested_ = {state_.step, *evaluate(Split::kTest, limit, [] { return false; })};
  const auto& totals = tested_.result.totals;
  log_evaluation("test", tested_.result);
  update(state_.last_metrics, values_of(totals, "test"));
  const auto accuracy = std::ranges::find(totals, "accuracy", &MetricTotal::name);
  if (accuracy == totals.end()) return;
  test_correct_ = static_cast<int64_t>(std::llround(accuracy->sum));
  test_total_ = accuracy->count;
}

}  // namespace ddprun
