// SPDX-License-Identifier: MIT
// The training batches of this rank, each there before its step begins, on all ranks or on none. Used from the training
// thread.
#pragma once

#include "base/clock.h"
#include "data/loader.h"
#include "step/context.h"
#include "train/agreement.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace ddprun {

class Batches {
 public:
  // Both references outlive it. `stop_requested` says whether this process was asked to end; `left_out` are samples
  // that a step does without.
  Batches(const Context& context, Agreement& agreement, std::function<bool()> stop_requested, LeftOut left_out);

  // Returns the batch of the step after `step` steps, which stays the next one until it is taken; null, on all ranks,
  // if one of them was asked to end and gets no samples: then the state after the last step is the one to save.
  // Collective while ranks ask each other for samples (agreement.h).
  const TrainBatch* next(int64_t step);
  TrainBatch take() { return *std::exchange(next_, std::nullopt); }

  // Returns whether this rank has fewer batches ready than Agreement::steps_ahead(), though it may hold so many.
  bool may_wait() const;

  // Returns whether this rank, waiting for samples, was asked to end and has waited long enough since.
  bool out_of_patience();

  void drop();

 private:
  const Context& context_;
  Agreement& agreement_;
  std::function<bool()> stop_requested_;
  LeftOut left_out_;
  std::unique_ptr<TrainLoader> loader_;  // of the next step on; null until a batch is needed
  std::optional<TrainBatch> next_;       // once something has looked at it
  std::optional<Stopwatch> asked_;       // to end, while this rank waited for samples
};

}  // namespace ddprun
