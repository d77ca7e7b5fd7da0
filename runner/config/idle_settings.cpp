// SPDX-License-Identifier: MIT
#include "config/idle_settings.h"

#include "config/feature_section.h"
#include "config/key_path.h"
#include "config/monitors.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace ddprun {
namespace {

bool is_overfitting(const Experiment& e) { return e.trainer.overfit_batches > 0; }

constexpr auto kIdle = std::to_array<IdleKey>({
    {"trainer.loss_scale", [](const Experiment& e) { return e.trainer.precision != PrecisionMode::kFp16; },
     "only precision fp16 scales the loss"},
    {"trainer.limit_train_batches", is_overfitting, "overfit_batches limits the epochs"},
    {"trainer.limit_val_batches", is_overfitting, "overfit_batches limits the evaluations"},
    {"trainer.prefetch_batches", [](const Experiment& e) { return e.trainer.prefetch_threads == 0; },
     "no thread reads ahead with prefetch_threads 0"},
    {"schedule.warmup_from", [](const Experiment& e) { return e.schedule.warmup.none(); }, "there is no warmup"},
    {"schedule.reference_batch",
     [](const Experiment& e) { return e.schedule.lr_scaling == LrScaling::kNone && !e.is_range_test(); },
     "the lr is not scaled with lr_scaling none"},
    {"early_stopping.hold",
     [](const Experiment& e) { return e.early_stopping && e.early_stopping->hold > 1 && !e.early_stopping->target; },
     "there is no target to hold"},
    {"early_stopping.min_delta",
     [](const Experiment& e) { return e.early_stopping && e.early_stopping->patience == 0; },
     "with patience 0 only the target ends the run"},
    {"predictions.log_images_per_batch", [](const Experiment& e) { return e.predictions.batches == 0; },
     "num_batches_to_log is 0"},
    {"launch.restart_seconds", [](const Experiment& e) { return e.launch.max_restarts == 0; },
     "nothing restarts with max_restarts 0"},
});

// Returns what does not happen without evaluations.
std::string loss_of(const std::string& key) {
  if (key.starts_with("early_stopping")) return "nothing can stop the run early";
  return key.starts_with("checkpoint") ? "no checkpoint becomes the best" : "the lr never falls";
}

std::vector<std::string> lines(const Experiment& experiment, const std::string& why, bool lost) {
  std::vector<std::string> lines;
  for (const auto& monitor : monitors_of(experiment))
    lines.push_back(
        problem_line(monitor.origin, monitor.key, monitor.metric + why + (lost ? ": " + loss_of(monitor.key) : "")));
  return lines;
}

}  // namespace

std::vector<std::string> idle_settings(const Experiment& experiment) {
  std::vector<std::string> found;
  std::vector<IdleKey> keys(kIdle.begin(), kIdle.end());
  for (const auto& section : feature_sections()) std::ranges::copy(section.idle, std::back_inserter(keys));
  for (const auto& [key, is_idle, why] : keys) {
    const auto* written = find_at(experiment.config, *parse_key_path(key));
    if (written && !written->is_null() && is_idle(experiment))
      found.push_back(problem_line(written->origin(), key, std::string("has no effect: ") + why));
  }
  if (experiment.trainer.eval_every.none() && !experiment.is_range_test()) {
    for (const auto& line : lines(experiment, " is measured only at the end, with trainer.eval_every=never", false))
      found.push_back(line);
  }
  return found;
}

std::vector<std::string> idle_monitors(const Experiment& experiment, bool has_val, bool has_test) {
  if (has_val || experiment.is_range_test()) return {};
  if (!has_test)
    return lines(experiment, " is not measured, since the dataset has neither a validation nor a test split", true);
  return lines(
      experiment,
      " is measured on the test split, since the dataset has no validation split: what it chooses is chosen by "
      "the test; hold out validation samples",
      false);
}

}  // namespace ddprun
