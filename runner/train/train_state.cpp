// SPDX-License-Identifier: MIT
#include "train/train_state.h"

#include "base/log.h"
#include "data/loader.h"
#include "step/context.h"
#include "step/train_step.h"

#include <ddprun/error.h>

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>

namespace ddprun {
namespace {

using nlohmann::json;

// Stores doubles as their bits: exact, and NaN and infinity survive.
json exact(double value) { return std::bit_cast<uint64_t>(value); }
double exact(const json& value) { return std::bit_cast<double>(value.get<uint64_t>()); }

json exact(const std::optional<double>& value) { return value ? exact(*value) : json(nullptr); }
std::optional<double> exact_or_none(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(exact(value));
}

json to_json_list(const NamedValues& values) {
  auto list = json::array();
  for (const auto& [name, value] : values) list.push_back({name, exact(value)});
  return list;
}

NamedValues named_values(const json& list) {
  NamedValues values;
  for (const auto& entry : list) values.emplace_back(entry.at(0).get<std::string>(), exact(entry.at(1)));
  return values;
}

json to_json_list(const std::vector<MetricTotal>& totals) {
  auto list = json::array();
  for (const auto& total : totals) list.push_back({total.name, exact(total.sum), total.count, total.exponential});
  return list;
}

std::vector<MetricTotal> metric_totals(const json& list) {
  std::vector<MetricTotal> totals;
  for (const auto& total : list) {
    totals.push_back(
        {.name = total.at(0), .sum = exact(total.at(1)), .count = total.at(2), .exponential = total.at(3)});
  }
  return totals;
}

// Stores of a sum the words that are not 0, which are few, with their places.
json to_json_list(std::vector<ExactTotal> totals) {
  auto list = json::array();
  for (auto& total : totals) {
    auto words = json::array();
    for (size_t place = 0; place < ExactSum::kWords; ++place) {
      if (const auto word = total.sum.words()[place]; word != 0) words.push_back({place, word});
    }
    list.push_back({total.name, std::move(words), total.count, total.exponential});
  }
  return list;
}

std::vector<ExactTotal> exact_totals(const json& list) {
  std::vector<ExactTotal> totals;
  for (const auto& total : list) {
    ExactSum::Words words{};
    for (const auto& word : total.at(1)) {
      const auto place = word.at(0).get<size_t>();
      const auto value = word.at(1).get<int64_t>();
      constexpr int64_t kMost = int64_t{1} << 40;  // more than any sum has there
      if (place >= words.size() || value < -kMost || value > kMost)
        throw json::out_of_range::create(401, "a sum has no such place or value", &word);
      words[place] = value;
    }
    totals.push_back({.name = total.at(0), .sum = ExactSum(words), .count = total.at(2), .exponential = total.at(3)});
  }
  return totals;
}

json to_json_object(const MetricHistory& history) {
  auto list = json::array();
  for (const auto& [step, value] : history.values) list.push_back({step, exact(value)});
  return {{"metric", history.metric}, {"left_out", history.left_out}, {"values", std::move(list)}};
}

MetricHistory metric_history(const json& object) {
  MetricHistory history{.metric = object.at("metric"), .left_out = object.at("left_out")};
  for (const auto& entry : object.at("values"))
    history.values.emplace_back(entry.at(0).get<int64_t>(), exact(entry.at(1)));
  return history;
}

MemoryFormat memory_format_of(const json& word, const std::string& where) {
  if (const auto format = enum_of<MemoryFormat>(word.get<std::string>())) return *format;
  throw UserError(where + ": its training state has an unknown memory_format: " + word.get<std::string>());
}

constexpr int64_t kFormat = 1;

// Keys of features, as the format has them in the checkpoint of every run, whatever features it uses.
json kept_by_all() {
  const auto no_work = json::array({0, 0, 0});
  return {{"work", no_work}, {"part_work", no_work}, {"micro_batch", 0}, {"recomputes", false}, {"machine", {0, ""}}};
}

void require_known_format(const json& state, const std::string& where) {
  const auto format = state.at("format").get<int64_t>();
  if (format > kFormat)
    throw UserError(log::text(where, ": the format of its training state is ", format, ", and this ddprun reads up to ",
                              kFormat, "; use a newer ddprun"));
}

}  // namespace

void TrainState::end(RunStatus how, const std::string& reason) {
  if (finished) return;
  finished = how;
  stop_reason = reason;
}

std::string TrainState::to_json() const {
  json text{{"format", kFormat},
            {"step", step},
            {"evaluated_step", evaluated_step},
            {"evaluation_asked", evaluation_asked},
            {"samples", samples},
            {"window", to_json_list(window)},
            {"row", to_json_list(row)},
            {"part", {{"totals", to_json_list(part)}, {"samples", part_samples}, {"train_seconds", part_seconds}}},
            {"stopper", {exact(stopper.best), stopper.evaluations_without_improvement, stopper.evaluations_at_target}},
            {"schedule", {schedule.reductions, exact(schedule.best), schedule.bad_evaluations, schedule.cooling}},
            {"scaler", {exact(scaler.scale), scaler.steps_since_change, scaler.overflows}},
            {"memory_format", word_of(memory_format)},
            {"nonfinite",
             {{"skipped", skipped}, {"in_row", skips_in_row}, {"skipped_without_overflow", skipped_without_overflow}}},
            {"best_value", exact(best_value)},
            {"best_metrics", to_json_list(best_metrics)},
            {"best_step", best_step},
            {"history", to_json_object(history)},
            {"last_metrics", to_json_list(last_metrics)},
            {"finished", finished ? word_of(*finished) : ""},
            {"stop_reason", stop_reason},
            {"train_seconds", train_seconds},
            {"clock", {clock.earlier, clock.started_at, clock.seconds}},
            {"global_batch", global_batch},
            {"batch_per_worker", batch_per_worker},
            {"seed", seed},
            {"shards", shards},
            {"threads", threads},
            {"world_size", world_size},
            {"devices", devices},
            {"train_samples", train_samples}};
  text.update(kept_by_all());
  for (const auto& [key, state] : of_features) text[key] = json::parse(state);
  return text.dump(2) + "\n";
}

TrainState TrainState::from_json(const std::string& text, const std::string& where) {
  try {
    const auto from = json::parse(text);
    require_known_format(from, where);
    TrainState state;
    from.at("step").get_to(state.step);
    from.at("evaluated_step").get_to(state.evaluated_step);
    from.at("evaluation_asked").get_to(state.evaluation_asked);
    from.at("samples").get_to(state.samples);
    state.window = exact_totals(from.at("window"));
    state.row = metric_totals(from.at("row"));
    const auto& part = from.at("part");
    state.part = metric_totals(part.at("totals"));
    part.at("samples").get_to(state.part_samples);
    part.at("train_seconds").get_to(state.part_seconds);
    const auto& stopper = from.at("stopper");
    state.stopper = {exact_or_none(stopper.at(0)), stopper.at(1), stopper.at(2)};
    const auto& schedule = from.at("schedule");
    state.schedule = {schedule.at(0), exact_or_none(schedule.at(1)), schedule.at(2), schedule.at(3)};
    const auto& scaler = from.at("scaler");
    state.scaler = {exact(scaler.at(0)), scaler.at(1), scaler.at(2)};
    state.memory_format = memory_format_of(from.at("memory_format"), where);
    const auto& nonfinite = from.at("nonfinite");
    nonfinite.at("skipped").get_to(state.skipped);
    nonfinite.at("in_row").get_to(state.skips_in_row);
    nonfinite.at("skipped_without_overflow").get_to(state.skipped_without_overflow);
    state.best_value = exact_or_none(from.at("best_value"));
    state.best_metrics = named_values(from.at("best_metrics"));
    from.at("best_step").get_to(state.best_step);
    state.history = metric_history(from.at("history"));
    state.last_metrics = named_values(from.at("last_metrics"));
    state.finished = enum_of<RunStatus>(from.at("finished").get<std::string>());
    from.at("stop_reason").get_to(state.stop_reason);
    from.at("train_seconds").get_to(state.train_seconds);
    const auto& clock = from.at("clock");
    state.clock = {clock.at(0), clock.at(1), clock.at(2)};
    from.at("global_batch").get_to(state.global_batch);
    from.at("batch_per_worker").get_to(state.batch_per_worker);
    from.at("seed").get_to(state.seed);
    from.at("shards").get_to(state.shards);
    from.at("threads").get_to(state.threads);
    from.at("world_size").get_to(state.world_size);
    from.at("devices").get_to(state.devices);
    from.at("train_samples").get_to(state.train_samples);
    auto of_features = from;
    const auto own = json::parse(TrainState().to_json()), of_all = kept_by_all();
    for (const auto& [key, value] : own.items())
      if (!of_all.contains(key)) of_features.erase(key);
    for (const auto& [key, value] : of_all.items()) from.at(key);
    for (const auto& [key, value] : of_features.items()) state.of_features[key] = value.dump();
    return state;
  } catch (const json::exception& error) {
    throw not_of_this_version(where, error);
  }
}

UserError not_of_this_version(const std::string& where, const std::exception& error) {
  return UserError(where + ": the training state in it is not one of this version of ddprun (" + error.what() + ")");
}

TrainState first_state(const Context& context) {
  const auto& trainer = context.experiment.trainer;
  return {.global_batch = trainer.global_batch,
          .batch_per_worker = trainer.batch_per_worker,
          .seed = context.experiment.seed,
          .shards = trainer.shards,
          .threads = at::get_num_threads(),
          .world_size = context.communicator.world().size,
          .devices = context.devices(),
          .train_samples = context.dataset->size(Split::kTrain)};
}

void TrainState::take(TrainStep& made, const Context& context) {
  skipped_without_overflow = made.skipped();
  memory_format = context.precision.memory_format();
  scaler = made.scaler().state();
}

void TrainState::give(TrainStep& made) const { made.restore(schedule, scaler, skipped_without_overflow); }

void TrainState::enter(const TrainState& now) {
  batch_per_worker = now.batch_per_worker;
  threads = now.threads;
  world_size = now.world_size;
  devices = now.devices;
}

void TrainState::require_same_run(const Experiment& experiment, int64_t now_samples, const std::string& where) const {
  const auto check = [&](const char* what, auto saved, auto now,
                         const char* why = "see the same samples in the same order") {
    if (saved == now) return;
    throw UserError(log::text(what, " is ", now, ", but ", where, " was saved with ", saved,
                              ": a resumed run must use the same value to ", why));
  };
  check("trainer.global_batch", global_batch, experiment.trainer.global_batch);
  check("seed", seed, experiment.seed);
  check("trainer.shards", shards, experiment.trainer.shards, "continue with the same bits");
  check("the size of the training set", train_samples, now_samples);
}

int64_t TrainState::kept_batch(const TrainerConfig& trainer, const std::string& where) const {
  const auto now = trainer.global_batch;
  if (now == global_batch || batch_per_worker == trainer.batch_per_worker) return global_batch;
  throw UserError(log::text("trainer.batch_per_worker: ", trainer.batch_per_worker, " samples for each worker make ",
                            now, ", but ", where, " was trained with ", global_batch,
                            " in a step: a resumed run keeps that number. Omit the key, or start a new run with "
                            "pretrained.file=",
                            where));
}

namespace {

int64_t step_limit(const TrainerConfig& config, int64_t steps_per_epoch) {
  const int64_t by_epochs = config.max_epochs * steps_per_epoch;
  return config.max_steps > 0 ? std::min(config.max_steps, by_epochs) : by_epochs;
}

}  // namespace

TrainPlan::TrainPlan(const TrainerConfig& config, int64_t samples)
    : steps_per_epoch_(step_plan(config, samples).steps_per_epoch()),
      max_steps_(step_limit(config, steps_per_epoch_)),
      eval_every_(config.eval_every) {}

bool TrainPlan::due(const Interval& every, int64_t step) const {
  if (every.steps > 0) return step % every.steps == 0;
  return every.epochs > 0 && step % (steps_per_epoch_ * every.epochs) == 0;
}

bool TrainPlan::at_part_end(const TrainState& state) const {
  const bool boundary =
      all_done(state) || is_epoch_end(state.step) || due(eval_every_, state.step) || state.evaluation_asked;
  return boundary && state.step > state.evaluated_step;
}

Schedule schedule_of(const Context& context, const TrainPlan& plan) {
  Schedule schedule(context.experiment.schedule, context.experiment.trainer.global_batch, plan.steps_per_epoch(),
                    plan.max_steps(), context.optimizer->groups().front().lr);
  if (!context.is_rank_zero()) return schedule;
  for (const auto& warning : schedule.warnings()) log::warn(warning);
  return schedule;
}

}  // namespace ddprun
