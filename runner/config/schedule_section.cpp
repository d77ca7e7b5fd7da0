// SPDX-License-Identifier: MIT
#include "config/interval.h"
#include "config/limits.h"
#include "config/sections.h"

namespace ddprun {
namespace {

void read_per(Options& options, ScheduleConfig& schedule, const char* fallback) {
  schedule.per_epoch =
      options.choose("per", fallback, {"step", "epoch"},
                     "when the rate moves; exponential by epochs, the others by steps by default") == "epoch";
}

void read_length(Options& options, ScheduleConfig& schedule) {
  schedule.length = read_interval(options, "length", "none", "none", false,
                                  "of the schedule after the warm-up, 90ep or 20000st; none: to the end of the run");
}

void read_gamma(Options& options, ScheduleConfig& schedule) {
  schedule.gamma = options.get<double>("gamma", schedule.gamma, "factor of each reduction", {0, kLargest});
}

void read_milestones(Options& options, ScheduleConfig& schedule) {
  const auto texts =
      options.require<std::vector<std::string>>("milestones", "when the rate falls, [60ep, 120ep, 160ep]");
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
      options.get<double>("pct_start", schedule.pct_start, "share of the steps that the rate rises", {0, 1});
  schedule.div_factor = options.get<double>("div_factor", schedule.div_factor,
                                            "it begins at optimizer.lr divided by this", {1, kLargest});
  schedule.final_div_factor = options.get<double>("final_div_factor", schedule.final_div_factor,
                                                  "it ends at its beginning divided by this", {1, kLargest});
  schedule.cosine_anneal = options.choose("anneal", "cos", {"cos", "linear"}, "along which curve") == "cos";
}

void read_plateau(Options& options, ScheduleConfig& schedule) {
  schedule.monitor = read_monitor(options, schedule.monitor, "the metric to watch");
  schedule.maximize = read_maximize(options, schedule.monitor);
  schedule.factor = options.get<double>("factor", schedule.factor, "of each reduction", {0, 1});
  schedule.patience = options.get<int64_t>("patience", schedule.patience,
                                           "evaluations without an improvement that are let pass", {0, kMost});
  schedule.threshold = options.get<double>("threshold", schedule.threshold,
                                           "share of the best value by which it has to improve", {0, kLargest});
  schedule.cooldown = options.get<int64_t>("cooldown", schedule.cooldown,
                                           "evaluations after a reduction that do not count", {0, kMost});
  schedule.min_lr = options.get<double>("min_lr", schedule.min_lr, "the rate falls no lower", {0, kLargest});
}

void read_kind(Options& options, ScheduleConfig& schedule) {
  switch (schedule.kind) {
    case ScheduleKind::kConstant: return;
    case ScheduleKind::kStep:
      schedule.every =
          read_interval(options, "every", "30ep", "never", false, "between two reductions, 30ep or 10000st");
      return read_gamma(options, schedule);
    case ScheduleKind::kMultistep: read_milestones(options, schedule); return read_gamma(options, schedule);
    case ScheduleKind::kExponential: read_gamma(options, schedule); return read_per(options, schedule, "epoch");
    case ScheduleKind::kCosine:
    case ScheduleKind::kLinear:
      schedule.end_lr = options.get<double>("end_lr", schedule.end_lr, "the rate at the end", {0, kLargest});
      read_length(options, schedule);
      return read_per(options, schedule, "step");
    case ScheduleKind::kOneCycle: read_one_cycle(options, schedule); return read_length(options, schedule);
    case ScheduleKind::kPlateau: return read_plateau(options, schedule);
  }
}

}  // namespace

ScheduleConfig read_schedule(Options& options) {
  ScheduleConfig schedule;
  schedule.kind = choose(options, "name", schedule.kind, "the curve that the learning rate follows");
  read_kind(options, schedule);
  schedule.warmup = read_interval(options, "warmup", "none", "none", false,
                                  "during which the rate rises along a line, 5ep or 500st; one_cycle has its own");
  if (schedule.kind == ScheduleKind::kOneCycle && !schedule.warmup.none())
    options.reject("warmup", "one_cycle rises by itself");
  schedule.warmup_from = options.get<double>("warmup_from", schedule.warmup_from,
                                             "share of the rate at the beginning of the warm-up", {0, 1});
  schedule.lr_scaling = choose(options, "lr_scaling", schedule.lr_scaling,
                               "multiply optimizer.lr by global_batch / reference_batch, or its root");
  schedule.reference_batch = options.get<int64_t>("reference_batch", schedule.reference_batch,
                                                  "the global batch that optimizer.lr was chosen for", {1, kMost});
  return schedule;
}

}  // namespace ddprun
