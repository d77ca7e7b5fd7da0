// SPDX-License-Identifier: MIT
// Trainer's part that tells the loggers how training goes.
#include "comm/replicate.h"
#include "metrics/histograms.h"
#include "train/trainer.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr double kProgressSeconds = 0.1;

double per_second(int64_t samples, double seconds) { return static_cast<double>(samples) / std::max(seconds, 1e-9); }

}  // namespace

double Trainer::train_seconds() const { return state_.train_seconds + since_step_.seconds(); }

void Trainer::show_progress(const char* phase) {
  if (since_progress_.seconds() < kProgressSeconds) return;
  since_progress_.restart();
  const double speed = per_second(state_.samples - samples_at_row_, state_.train_seconds - seconds_at_row_);
  const auto step_in_epoch = state_.step == 0 ? 0 : (state_.step - 1) % steps_per_epoch_ + 1;
  parts_.loggers.progress({epoch_of_step(), state_.step, step_in_epoch, phase, speed});
}

// No row at a part's end, where it would be of a few steps: its noise would pass for a change. They are in the next
// one.
void Trainer::log_window() {
  if (!settle_steps()) return;
  const auto totals = window_.totals(parts_.communicator);
  window_.reset();
  add(state_.row, totals);
  add(state_.part, totals);
  if (state_.step % experiment_.trainer.log_every == 0 || state_.step >= max_steps_) log_training();
}

void Trainer::log_training() {
  const auto totals = std::exchange(state_.row, {});
  update(state_.last_metrics, values_of(totals, "train"));
  auto values = values_of(totals);
  std::ranges::move(step_.rates(), std::back_inserter(values));
  if (auto* scaler = step_.scaler()) {
    const auto state = scaler->state();
    values.emplace_back("loss_scale", state.scale);
    values.emplace_back("overflows", static_cast<double>(state.overflows));
  }
  if (experiment_.trainer.on_nonfinite != "stop")
    values.emplace_back("skipped_steps", static_cast<double>(state_.skipped));
  const double now = train_seconds();
  values.emplace_back("samples_per_second", per_second(state_.samples - std::exchange(samples_at_row_, state_.samples),
                                                       now - std::exchange(seconds_at_row_, now)));
  log_row("train", std::move(values));
}

// The means over an epoch, or over what lies between two evaluations of it.
void Trainer::log_part(double evaluation_seconds) {
  const auto totals = std::exchange(state_.part, {});
  const auto samples = state_.samples - std::exchange(state_.part_samples, state_.samples);
  const auto seconds = state_.train_seconds - std::exchange(state_.part_seconds, state_.train_seconds);
  update(state_.last_metrics, values_of(totals, "train"));
  auto values = values_of(totals);
  values.emplace_back("samples_per_second", per_second(samples, seconds));
  values.emplace_back("train_seconds", seconds);
  if (evaluation_seconds > 0) values.emplace_back("evaluation_seconds", evaluation_seconds);
  log_row("epoch", std::move(values));
}

void Trainer::log_row(const std::string& split, NamedValues values) {
  parts_.loggers.metrics({.time = wall_seconds(),
                          .split = split,
                          .epoch = epoch_of_step(),
                          .step = state_.step,
                          .samples = state_.samples,
                          .values = std::move(values)});
}

// Asked of rank 0's clock: all ranks measure together.
bool Trainer::measure_is_due() {
  const auto every = experiment_.trainer.system_metrics_seconds;
  if (parts_.communicator.world().rank != 0 || every == 0 || since_measured_.seconds() < every) return false;
  since_measured_.restart();
  return true;
}

void Trainer::log_measures() {
  if (experiment_.trainer.system_metrics_seconds == 0 || steps_measured_ == 0) return;
  const auto seconds = clock_.take();
  phases_ += seconds;
  auto table = measures_.gather(seconds, std::exchange(steps_measured_, 0), parts_.communicator);
  since_measured_.restart();
  table.epoch = epoch_of_step();
  table.step = state_.step;
  log_row("system", system_values(table));
  parts_.loggers.ranks(table);
}

// All ranks have the same weights and gradients: rank 0 alone, without a word to the others. Returns, on all ranks,
// whether the next step is watched.
bool Trainer::watch_gradients() {
  const auto& config = experiment_.histograms;
  if (!due(config.every, state_.step + 1)) return false;
  if (parts_.communicator.world().rank != 0) return true;
  step_.show_gradients([this, bins = config.bins](const std::vector<NamedParameter>& parameters) {
    gradients_ = histograms_of_gradients(parameters, bins);
  });
  return true;
}

void Trainer::log_histograms() {
  HistogramTable table{.epoch = epoch_of_step(), .step = state_.step};
  table.histograms = histograms_of_weights(trainable_parameters(*parts_.model), experiment_.histograms.bins);
  std::ranges::move(gradients_, std::back_inserter(table.histograms));
  gradients_.clear();
  parts_.loggers.histograms(table);
}

void Trainer::tell(const std::string& kind, const std::string& text) {
  parts_.loggers.event(
      {.time = wall_seconds(), .epoch = epoch_of_step(), .step = state_.step, .kind = kind, .text = text});
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
