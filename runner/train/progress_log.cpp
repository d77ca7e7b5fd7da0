// SPDX-License-Identifier: MIT
#include "train/progress_log.h"

#include "base/log.h"

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
  in_step_ = false;
  samples_timed_ = samples_at_row_;
  speed_ = 0;
  timer_.pause();
  take_phases();
}

PhaseSeconds ProgressLog::take_phases() {
  const auto seconds = timer_.take();
  phases_ += seconds;
  return seconds;
}

double ProgressLog::train_seconds() const { return state_.train_seconds + (in_step_ ? since_step_.seconds() : 0); }

void ProgressLog::begin_step() {
  since_step_.restart();
  in_step_ = true;
}

void ProgressLog::end_training() {
  state_.train_seconds = train_seconds();
  in_step_ = false;
}

void ProgressLog::end_step() {
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
  if (!totals.empty() && totals.front().count == 0 && context_.is_rank_zero() &&
      !std::exchange(warned_of_nothing_, true))
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
  values.emplace_back("samples_per_second", speed_);
  features_.each(&Feature::add_to_row, RowSpan{.seconds = seconds, .until = now, .samples_per_second = speed_}, values);
  log_row("train", std::move(values));
}

void ProgressLog::log_part(double evaluation_seconds) {
  auto& state = state_;
  const auto totals = std::exchange(state.part, {});
  const auto samples = state.samples - std::exchange(state.part_samples, state.samples);
  const auto seconds = state.train_seconds - std::exchange(state.part_seconds, state.train_seconds);
  update(state.last_metrics, values_of(totals, "train"));
  auto values = values_of(totals);
  std::ranges::move(step_.lr().values(), std::back_inserter(values));
  const auto speed = per_second(samples, seconds);
  values.emplace_back("samples_per_second", speed);
  features_.each(
      &Feature::add_to_row,
      RowSpan{.is_part = true, .seconds = seconds, .until = state.train_seconds, .samples_per_second = speed}, values);
  values.emplace_back("train_seconds", seconds);
  if (evaluation_seconds > 0) values.emplace_back("evaluation_seconds", evaluation_seconds);
  log_row("epoch", std::move(values));
}

void ProgressLog::save() {
  state_.window = window_.exact_totals(context_.communicator);
  state_.clock = clock_.state();
}

void ProgressLog::restore() {
  window_.reset(context_.is_rank_zero() ? state_.window : std::vector<ExactTotal>());
  clock_.set_state(state_.clock);
}

RunEnd ProgressLog::end() const {
  const auto& world = context_.communicator.world();
  return {.stop_reason = state_.stop_reason,
          .steps = state_.step,
          .epochs = static_cast<double>(state_.step) / static_cast<double>(plan_.steps_per_epoch()),
          .samples = state_.samples,
          .total_seconds = clock_.seconds(),
          .train_seconds = state_.train_seconds,
          .samples_per_second = static_cast<double>(state_.samples) / std::max(state_.train_seconds, 1e-9),
          .metrics = state_.last_metrics,
          .best = state_.best_metrics,
          .best_step = state_.best_step,
          .world_size = world.size,
          .nodes = world.nodes};
}

void ProgressLog::log_row(const std::string& split, NamedValues values) {
  context_.loggers.metrics({.time = wall_seconds(),
                            .split = split,
                            .epoch = epoch(),
                            .step = state_.step,
                            .samples = state_.samples,
                            .values = std::move(values)});
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
