// SPDX-License-Identifier: MIT
// Trainer's part that tells the loggers how training goes.
#include "train/histograms.h"
#include "train/trainer.h"

#include "dist/replicate.h"

#include <algorithm>

namespace ddprun {
namespace {

constexpr double kProgressSeconds = 0.1;

}  // namespace

void Trainer::show_progress(const char* phase) {
  if (since_progress_.seconds() < kProgressSeconds) return;
  since_progress_.restart();
  const double speed = static_cast<double>(state_.samples - samples_at_row_) / std::max(since_row_.seconds(), 1e-9);
  const auto step_in_epoch = state_.step == 0 ? 0 : (state_.step - 1) % steps_per_epoch_ + 1;
  parts_.loggers.progress({epoch_of_step(), state_.step, step_in_epoch, phase, speed});
}

void Trainer::log_window() {
  if (!settle_steps()) return;
  const auto totals = window_.totals(parts_.communicator);
  window_.reset();
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
  const double seconds = since_row_.seconds();
  values.emplace_back("samples_per_second",
                      static_cast<double>(state_.samples - samples_at_row_) / std::max(seconds, 1e-9));
  since_row_.restart();
  samples_at_row_ = state_.samples;
  log_row("train", std::move(values));
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
  const auto every = experiment_.trainer.measure_seconds;
  if (parts_.communicator.world().rank != 0 || every == 0 || since_measured_.seconds() < every) return false;
  since_measured_.restart();
  return true;
}

void Trainer::log_measures() {
  if (experiment_.trainer.measure_seconds == 0 || steps_measured_ == 0) return;
  const auto seconds = clock_.take();
  phases_ += seconds;
  auto table = measures_.gather(seconds, std::exchange(steps_measured_, 0), parts_.communicator);
  since_measured_.restart();
  table.epoch = epoch_of_step();
  table.step = state_.step;
  log_row("system", system_values(table));
  parts_.loggers.ranks(table);
}

// All ranks have the same weights and gradients: rank 0 alone, without a word to the others. Returns, on all ranks, whether the
// next step is watched.
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
