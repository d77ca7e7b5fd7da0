// SPDX-License-Identifier: MIT
#include "step/schedule.h"

#include "base/log.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace ddprun {
namespace {

// Returns the value at `at` on the line from `from` at 0 to `to` at 1.
double on_line(double from, double to, double at) { return from + (to - from) * at; }
double on_cosine(double from, double to, double at) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * at)) / 2;
}

double batch_scaling(const ScheduleConfig& config, int64_t global_batch) {
  const double ratio = static_cast<double>(global_batch) / static_cast<double>(config.reference_batch);
  if (config.lr_scaling == LrScaling::kLinear) return ratio;
  return config.lr_scaling == LrScaling::kSqrt ? std::sqrt(ratio) : 1;
}

}  // namespace

Schedule::Schedule(const ScheduleConfig& config, int64_t global_batch, int64_t steps_per_epoch, int64_t total_steps,
                   double first_lr)
    : config_(config),
      scaling_(batch_scaling(config, global_batch)),
      first_lr_(first_lr),
      steps_per_epoch_(std::max<int64_t>(steps_per_epoch, 1)),
      total_steps_(total_steps),
      warmup_(in_steps(config.warmup)),
      length_(config.length.none() ? std::max<int64_t>(total_steps - warmup_, 1) : in_steps(config.length)) {
  if (config.kind == ScheduleKind::kRangeTest && first_lr == 0)
    throw UserError("optimizer.lr is 0, which a range test cannot raise; give it any other value");
}

int64_t Schedule::in_steps(const Interval& interval) const {
  return interval.epochs > 0 ? interval.epochs * steps_per_epoch_ : interval.steps;
}

double Schedule::lr(double base_lr, int64_t step) const {
  base_lr *= scaling_;
  if (step >= warmup_) return along(base_lr, step);
  const double at = static_cast<double>(step) / static_cast<double>(warmup_);
  return along(base_lr, step) * on_line(config_.warmup_from, 1, at);
}

double Schedule::along(double base_lr, int64_t step) const {
  const int64_t unit = config_.per_epoch ? steps_per_epoch_ : 1;
  const auto done = std::clamp<int64_t>(step - warmup_, 0, length_) / unit;
  const double whole = std::max(1.0, static_cast<double>(length_ / unit));
  const double at = std::min(static_cast<double>(done) / whole, 1.0);
  const auto falls = [&](int64_t times) { return base_lr * std::pow(config_.gamma, static_cast<double>(times)); };
  switch (config_.kind) {
    case ScheduleKind::kConstant: return base_lr;
    case ScheduleKind::kStep: return config_.every.none() ? base_lr : falls(step / in_steps(config_.every));
    case ScheduleKind::kMultistep:
      return falls(std::ranges::count_if(config_.milestones, [&](const auto& m) { return in_steps(m) <= step; }));
    case ScheduleKind::kExponential: return falls(step / unit);
    case ScheduleKind::kCosine: return on_cosine(base_lr, config_.end_lr, at);
    case ScheduleKind::kLinear: return on_line(base_lr, config_.end_lr, at);
    case ScheduleKind::kOneCycle: return cycle(base_lr, static_cast<double>(done));
    case ScheduleKind::kPlateau: return reduced(base_lr);
    case ScheduleKind::kRangeTest:
      return base_lr / first_lr_ * raised(static_cast<double>(done) / std::max(1.0, whole - 1));
  }
  return base_lr;
}

double Schedule::reduced(double base_lr) const {
  return std::max(base_lr * std::pow(config_.factor, static_cast<double>(state_.reductions)),
                  std::min(base_lr, config_.min_lr));
}

// Returns the lr of a range test at this share of its steps.
double Schedule::raised(double share) const { return config_.from * std::pow(config_.to / config_.from, share); }

double Schedule::cycle(double base_lr, double step) const {
  const double start = base_lr / config_.div_factor, end = start / config_.final_div_factor;
  const double top = config_.pct_start * static_cast<double>(length_) - 1;
  const double last = std::max(top + 1, static_cast<double>(length_ - 1));
  const auto curve = config_.cosine_anneal ? on_cosine : on_line;
  if (step <= top) return curve(start, base_lr, step / std::max(top, 1e-9));
  return curve(base_lr, end, std::min(1.0, (step - top) / (last - top)));
}

// Follows the rules of torch's ReduceLROnPlateau with a relative threshold.
void Schedule::observe(double value) {
  if (config_.kind != ScheduleKind::kPlateau) return;
  const double sign = config_.maximize ? 1 : -1;
  const bool better = !state_.best || sign * (value - *state_.best) > config_.threshold * std::abs(*state_.best);
  if (better) {
    state_.best = value;
    state_.bad_evaluations = 0;
  } else {
    ++state_.bad_evaluations;
  }
  if (state_.cooling > 0) {
    --state_.cooling;
    state_.bad_evaluations = 0;
  }
  if (state_.bad_evaluations <= config_.patience) return;
  ++state_.reductions;
  state_.cooling = config_.cooldown;
  state_.bad_evaluations = 0;
}

std::vector<std::string> Schedule::warnings() const {
  std::vector<std::string> texts;
  const auto check = [&](const char* what, const Interval& interval, int64_t from) {
    if (interval.none() || from + in_steps(interval) <= total_steps_) return;
    texts.push_back(log::text("schedule.", what, ": ",
                              interval.epochs > 0 ? log::text(interval.epochs, "ep") : log::text(interval.steps, "st"),
                              " goes beyond the end of the run, which has ", total_steps_, " steps of ",
                              steps_per_epoch_, " an epoch"));
  };
  check("warmup", config_.warmup, 0);
  check("length", config_.length, warmup_);
  if (config_.kind == ScheduleKind::kStep) check("every", config_.every, 0);
  for (const auto& milestone : config_.milestones) check("milestones", milestone, 0);
  return texts;
}

}  // namespace ddprun
