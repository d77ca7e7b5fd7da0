// SPDX-License-Identifier: MIT
// The toy run whose steps are captured and replayed: nine in an epoch, the last of them ragged.
#pragma once

#include "optimizers/training.h"
#include "support/replaying_backend.h"
#include "support/toy_run.h"

namespace ddprun::testing {

inline ToyRun replayed_toy(const TempFolder& folder, int64_t ranks = 1, int64_t epochs = 4) {
  ToyRun run{.ranks = ranks, .folder = folder.path()};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = epochs, .global_batch = 12, .log_every = 1};
  run.experiment.schedule = {.kind = ScheduleKind::kCosine, .warmup = {.steps = 4}};
  run.make_optimizer = [](double rate) {
    return make_optimizer("sgd", {{"lr", std::to_string(rate)}, {"momentum", "0.9"}, {"weight_decay", "1e-3"}});
  };
  run.make_backend = [](int64_t) { return std::make_shared<ReplayingBackend>(); };
  return run;
}

// The same, operator by operator and without any device.
inline ToyRun without_device(ToyRun run, const TempFolder& folder) {
  run.make_backend = nullptr;
  run.folder = folder.path();
  return run;
}

inline std::vector<std::string> numbers(const std::vector<MetricRow>& rows) {
  std::vector<std::string> texts;
  for (const auto& row : rows) {
    std::string text = row.split + " " + std::to_string(row.step);
    for (const auto& [name, value] : row.values) {
      const bool is_time = name.ends_with("_per_second") || name.ends_with("_seconds");
      if (!is_time) text += " " + name + "=" + std::to_string(std::bit_cast<uint64_t>(value));
    }
    texts.push_back(text);
  }
  return texts;
}

}  // namespace ddprun::testing
