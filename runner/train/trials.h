// SPDX-License-Identifier: MIT
// Steps before the first one that counts, whose results are discarded: what fails, or does not fit into memory, shows
// there. They leave weights, optimizer, averages, buffers and random generators as they were, and gradients undefined.
#pragma once

#include "data/loader.h"
#include "train/context.h"
#include "train/recomputation.h"
#include "train/train_step.h"

#include <cstdint>
#include <functional>

namespace ddprun {

// Finds how many samples fit into memory at once, for `trainer.micro_batch: auto`. Tries forward and backward of the
// batch with its whole part on every rank, then with half of it, and so on until no rank runs out of memory, while
// holding what the optimizer and averages keep from the first step on. Returns the same number on all ranks, and logs
// it if it is less than the whole. With `trainer.recompute: auto`, what fits is less than a quarter of the part, and
// blocks that are computed again let more fit, they are chosen. Throws UserError if not even one sample fits.
// Collective.
int64_t find_micro_batch(const Context& context, TrainStep& step, const TrainBatch& batch, Recomputation& blocks);

// Computes on two samples, or the one of the batch, on this rank only: the model's blocks ask whether they are to be
// computed again. They are where memory is too small otherwise.
void ask_for_blocks(const Context& context, TrainStep& step, const TrainBatch& batch, Recomputation& blocks);

// Computes on two samples, or the one of the batch, on this rank only, and compares what the chosen blocks compute the
// second time with the first. Throws UserError for one that computes something else. Says so if there is no memory for
// it.
void compare_blocks(const Context& context, TrainStep& step, const TrainBatch& batch);

// Computes on two samples, or the one of the batch, on this rank only: a model that says it waits for weights must do
// so (late_weights.h).
void try_late_weights(const Context& context, const TrainBatch& batch);

// Warms up the reducer, which finds the order of its buckets in its first step and exchanges gradients in other
// portions from the second on: that changes the rounding of sums over three or more ranks. One step whose result is
// discarded puts every start of a run, fresh or resumed, past this point; otherwise a resumed run would differ in its
// first step from one that never stopped. Collective.
void warm_up_reducer(const Context& context, TrainStep& step, const TrainBatch& batch);

// Computes on so many samples of the batch, on this rank only.
void rehearse(const Context& context, TrainStep& step, const TrainBatch& batch, int64_t samples);

// Calls a rehearsal with so many samples, the fewest that a rank has at once. Its errors say so, and what to do.
void rehearsed(int64_t samples, const std::function<void()>& rehearsal);

}  // namespace ddprun
