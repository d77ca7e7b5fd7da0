// SPDX-License-Identifier: MIT
#include "train/progress_log.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "metrics/histograms.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr double kProgressSeconds = 0.1;

double per_second(int64_t samples, double seconds) { return static_cast<double>(samples) / std::max(seconds, 1e-9); }

}  // namespace

void ProgressLog::start() {
  samples_at_row_ = state_.samples;
  seconds_at_row_ = state_.train_seconds;
  flops_at_row_ = state_.work.flops;
  in_step_ = false;
  samples_timed_ = samples_at_row_;
  speed_ = 0;
  timer_.pause();
  take_phases();
}

const PhaseSeconds& ProgressLog::take_phases() { return phases_ += timer_.take(); }

double ProgressLog::train_seconds() const { return state_.train_seconds + (in_step_ ? since_step_.seconds() : 0); }

void ProgressLog::begin_step() {
  since_step_.restart();
  in_step_ = true;
}

void ProgressLog::end_training() {
  const double before = std::exchange(state_.train_seconds, train_seconds());
  state_.work.possible += work_.possible(state_.train_seconds - before);
  in_step_ = false;
}

void ProgressLog::end_step() {
  ++steps_measured_;
  if (!gradients_.empty()) log_histograms();
  show_progress("train");
  samples_timed_ = state_.samples;
}

// Returns samples per second since the last row, of the steps that are timed; until there is one, that of the row.
double ProgressLog::speed() {
  const auto samples = samples_timed_ - samples_at_row_;
  const double seconds = state_.train_seconds - seconds_at_row_;
  if (samples > 0 && seconds > 0) speed_ = per_second(samples, seconds);
  return speed_;
}

void ProgressLog::show_progress(const char* phase) {
  if (since_progress_.seconds() < kProgressSeconds) return;
  since_progress_.restart();
  const auto& state = state_;
  const auto step_in_epoch = state.step == 0 ? 0 : (state.step - 1) % plan_.steps_per_epoch() + 1;
  context_.loggers.progress({epoch(), state.step, step_in_epoch, phase, speed()});
}

// Writes no row at the end of a part, where it would cover few steps and its noise would look like a change. They go
// into the next one.
void ProgressLog::log_window() {
  auto& state = state_;
  const auto totals = window_.totals(context_.communicator);
  window_.reset();
  ddprun::add(state.row, totals);
  ddprun::add(state.part, totals);
  const bool due = state.step % context_.experiment.trainer.log_every == 0;
  if (due || state.step >= plan_.max_steps()) log_training();
}

void ProgressLog::log_training() {
  auto& state = state_;
  const auto totals = std::exchange(state.row, {});
  if (!totals.empty() && totals.front().count == 0 && context_.is_rank_zero() && !std::exchange(told_of_nothing_, true))
    log::warn(log::text("no target of the samples in the row of step ", state.step,
                        " counts, since all are ignored: nothing was learned from them"));
  update(state.last_metrics, values_of(totals, "train"));
  auto values = values_of(totals);
  std::ranges::move(step_.lr().values(), std::back_inserter(values));
  if (auto& scaler = step_.scaler(); scaler.enabled()) {
    const auto scale = scaler.state();
    values.emplace_back("loss_scale", scale.scale);
    values.emplace_back("overflows", static_cast<double>(scale.overflows));
  }
  if (context_.experiment.trainer.on_nonfinite != OnNonfinite::kStop)
    values.emplace_back("skipped_steps", static_cast<double>(state.skipped));
  const double now = train_seconds(), seconds = now - std::exchange(seconds_at_row_, now);
  speed_ = per_second(state.samples - std::exchange(samples_at_row_, state.samples), seconds);
  const TrainWork work{.tokens_per_sample = state.work.tokens_per_sample,
                       .flops = state.work.flops - std::exchange(flops_at_row_, state.work.flops),
                       .possible = work_.possible(seconds)};
  std::ranges::move(work_.speeds(speed_, work, seconds), std::back_inserter(values));
  log_row("train", std::move(values));
}

void ProgressLog::log_part(double evaluation_seconds) {
  auto& state = state_;
  const auto totals = std::exchange(state.part, {});
  const auto samples = state.samples - std::exchange(state.part_samples, state.samples);
  const auto seconds = state.train_seconds - std::exchange(state.part_seconds, state.train_seconds);
  const auto before = std::exchange(state.part_work, state.work);
  const TrainWork work{.tokens_per_sample = state.work.tokens_per_sample,
                       .flops = state.work.flops - before.flops,
                       .possible = state.work.possible - before.possible};
  update(state.last_metrics, values_of(totals, "train"));
  auto values = values_of(totals);
  std::ranges::move(step_.lr().values(), std::back_inserter(values));
  std::ranges::move(work_.speeds(per_second(samples, seconds), work, seconds), std::back_inserter(values));
  values.emplace_back("train_seconds", seconds);
  if (evaluation_seconds > 0) values.emplace_back("evaluation_seconds", evaluation_seconds);
  log_row("epoch", std::move(values));
}

void ProgressLog::log_row(const std::string& split, NamedValues values) {
  context_.loggers.metrics({.time = wall_seconds(),
                            .split = split,
                            .epoch = epoch(),
                            .step = state_.step,
                            .samples = state_.samples,
                            .values = std::move(values)});
}

bool ProgressLog::system_row_is_due() {
  const auto every = context_.experiment.trainer.system_metrics_seconds;
  if (!context_.is_rank_zero() || every == 0 || since_measured_.seconds() < every) return false;
  since_measured_.restart();
  return true;
}

void ProgressLog::log_system() {
  if (context_.experiment.trainer.system_metrics_seconds == 0 || steps_measured_ == 0) return;
  const auto seconds = timer_.take();
  phases_ += seconds;
  auto table = system_metrics_.gather(seconds, std::exchange(steps_measured_, 0), context_.communicator);
  since_measured_.restart();
  table.epoch = epoch();
  table.step = state_.step;
  log_row("system", system_values(table));
  context_.loggers.ranks(table);
}

// Returns whether to show gradients. All ranks have the same weights and gradients: only rank 0 shows them, without
// communication.
bool ProgressLog::watch_gradients() {
  const auto& config = context_.experiment.histograms;
  if (!plan_.due(config.every, state_.step + 1)) return false;
  if (!context_.is_rank_zero()) {
    step_.show_gradients({});
    return true;
  }
  step_.show_gradients([this, bins = config.bins](const std::vector<NamedParameter>& parameters) {
    gradients_ = histograms_of_gradients(parameters, bins);
  });
  return true;
}

void ProgressLog::log_histograms() {
  HistogramTable table{.epoch = epoch(), .step = state_.step};
  table.histograms = histograms_of_weights(trainable_parameters(*context_.model), context_.experiment.histograms.bins);
  std::ranges::move(gradients_, std::back_inserter(table.histograms));
  gradients_.clear();
  context_.loggers.histograms(table);
}

void ProgressLog::event(const std::string& kind, const std::string& text) {
  context_.loggers.event({.time = wall_seconds(), .epoch = epoch(), .step = state_.step, .kind = kind, .text = text});
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

}  // namespace ddprun
