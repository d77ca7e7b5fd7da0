// SPDX-License-Identifier: MIT
#include "config/interval.h"
#include "config/sections.h"

namespace ddprun {
namespace {

void read_per(Options& options, ScheduleConfig& schedule, const char* fallback) {
  schedule.per_epoch =
      options.choose("per", fallback, {"step", "epoch"},
                     "when the lr changes; by default per epoch for exponential, per step for the others") == "epoch";
}

void read_length(Options& options, ScheduleConfig& schedule) {
  schedule.length =
      read_interval(options, "length", "none", "none", false,
                    "length of the schedule after the warm-up, 90ep or 20000st; none: to the end of the run");
}

void read_gamma(Options& options, ScheduleConfig& schedule) {
  schedule.gamma = options.get<double>("gamma", schedule.gamma, "factor of each reduction", {0, kLargest});
}

void read_milestones(Options& options, ScheduleConfig& schedule) {
  const auto texts = options.require<std::vector<std::string>>("milestones", "when the lr falls, [60ep, 120ep, 160ep]");
  for (const auto& text : texts) {
    const auto milestone = parse_interval(text);
    if (milestone && milestone->seconds == 0) {
      schedule.milestones.push_back(*milestone);
    } else {
      options.reject("milestones", "expected epochs or steps such as 60ep or 20000st, found \"" + text + "\"");
    }
  }
}

void read_one_cycle(Options& options, ScheduleConfig& schedule) {
  schedule.pct_start =
      options.get<double>("pct_start", schedule.pct_start, "share of the steps in which the lr rises", {0, 1});
  schedule.div_factor = options.get<double>("div_factor", schedule.div_factor,
                                            "the lr starts at optimizer.lr divided by this", {1, kLargest});
  schedule.final_div_factor = options.get<double>("final_div_factor", schedule.final_div_factor,
                                                  "the lr ends at its start divided by this", {1, kLargest});
  schedule.cosine_anneal = options.choose("anneal", "cos", {"cos", "linear"}, "shape of the curve") == "cos";
}

void read_plateau(Options& options, ScheduleConfig& schedule) {
  schedule.monitor = read_monitor(options, schedule.monitor, "the metric to watch");
  schedule.maximize = read_maximize(options, schedule.monitor);
  schedule.factor = options.get<double>("factor", schedule.factor, "factor of each reduction", {0, 1});
  schedule.patience = options.get<int64_t>("patience", schedule.patience,
                                           "evaluations without an improvement that are tolerated", {0, kMost});
  schedule.threshold =
      options.get<double>("threshold", schedule.threshold, "relative improvement that counts", {0, kLargest});
  schedule.cooldown =
      options.get<int64_t>("cooldown", schedule.cooldown, "evaluations to ignore after a reduction", {0, kMost});
  schedule.min_lr = options.get<double>("min_lr", schedule.min_lr, "lower limit of the lr", {0, kLargest});
}

void read_range_test(Options& options, ScheduleConfig& schedule) {
  constexpr double kSmallest = 1e-30;
  schedule.from = options.get<double>("from", schedule.from, "optimizer.lr in the first step", {kSmallest, kLargest});
  schedule.to = options.get<double>("to", schedule.to, "optimizer.lr in the last step", {kSmallest, kLargest});
  if (schedule.to <= schedule.from) options.reject("to", "expected more than `from`: the lr rises");
}

void read_kind(Options& options, ScheduleConfig& schedule) {
  switch (schedule.kind) {
    case ScheduleKind::kConstant: return;
    case ScheduleKind::kStep:
      schedule.every =
          read_interval(options, "every", "30ep", "never", false, "interval of the reductions, 30ep or 10000st");
      return read_gamma(options, schedule);
    case ScheduleKind::kMultistep: read_milestones(options, schedule); return read_gamma(options, schedule);
    case ScheduleKind::kExponential: read_gamma(options, schedule); return read_per(options, schedule, "epoch");
    case ScheduleKind::kCosine:
    case ScheduleKind::kLinear:
      schedule.end_lr = options.get<double>("end_lr", schedule.end_lr, "the lr at the end", {0, kLargest});
      read_length(options, schedule);
      return read_per(options, schedule, "step");
    case ScheduleKind::kOneCycle: read_one_cycle(options, schedule); return read_length(options, schedule);
    case ScheduleKind::kPlateau: return read_plateau(options, schedule);
    case ScheduleKind::kRangeTest: return read_range_test(options, schedule);
  }
}

}  // namespace

ScheduleConfig read_schedule(Options& options) {
  ScheduleConfig schedule;
  schedule.kind = choose(options, "name", schedule.kind, "how the lr changes");
  read_kind(options, schedule);
  schedule.warmup = read_interval(options, "warmup", "none", "none", false,
                                  "length of the linear warm-up, 5ep or 500st; one_cycle has its own");
  if (schedule.kind == ScheduleKind::kOneCycle && !schedule.warmup.none())
    options.reject("warmup", "one_cycle has a warm-up of its own");
  if (schedule.kind == ScheduleKind::kRangeTest && !schedule.warmup.none())
    options.reject("warmup", "range_test has none: its lr rises all the time");
  schedule.warmup_from =
      options.get<double>("warmup_from", schedule.warmup_from, "share of the lr at the start of the warm-up", {0, 1});
  schedule.lr_scaling = choose(options, "lr_scaling", schedule.lr_scaling,
                               "multiply optimizer.lr by global_batch / reference_batch, or its root");
  schedule.reference_batch = options.get<int64_t>("reference_batch", schedule.reference_batch,
                                                  "the global batch that optimizer.lr was chosen for", {1, kMost});
  return schedule;
}

}  // namespace ddprun
