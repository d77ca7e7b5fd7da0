// SPDX-License-Identifier: MIT
// Steps before the first one that counts, whose results are discarded: what fails, or does not fit into memory, shows
// there. They leave weights, optimizer, averages, buffers and random generators as they were, and gradients undefined.
#pragma once

#include "comm/replicate.h"
#include "data/loader.h"
#include "step/context.h"
#include "step/train_step.h"
#include "weights/state_guard.h"

#include <cstdint>
#include <functional>

namespace ddprun {

// Has the model train for a scope, and restores its buffers and the random generators at its end.
class Trial {
 public:
  explicit Trial(const Context& context) : kept_(buffers(*context.model), context.backend.get()) {
    context.model->train();
  }

 private:
  StateGuard kept_;
};

// Warms up the reducer, which finds the order of its buckets in its first step and exchanges gradients in other
// portions from the second on: that changes the rounding of sums over three or more ranks. One step whose result is
// discarded puts every start of a run, fresh or resumed, past this point; otherwise a resumed run would differ in its
// first step from one that never stopped. Collective.
void warm_up_reducer(const Context& context, TrainStep& step, const TrainBatch& batch);

// Computes on as few samples as a rank will have in the last batch of an epoch, if those are fewer than in the others,
// on this rank only. Some layers need more than one, and would end the run after its first epoch. Those that look at
// the samples of all ranks get as many here as all will have together. `next_batch` returns null if there is none.
void rehearse_smallest_part(const Context& context, TrainStep& step, int64_t train_samples,
                            const std::function<const TrainBatch*()>& next_batch);

// Calls a rehearsal with so many samples, the fewest that a rank has at once. Its errors say so, and what to do.
void rehearsed(int64_t samples, const std::function<void()>& rehearsal);

}  // namespace ddprun
