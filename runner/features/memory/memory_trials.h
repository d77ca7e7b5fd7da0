// SPDX-License-Identifier: MIT
// Trials (step/trials.h) of what fits into memory.
#pragma once

#include "sharing/recomputation.h"
#include "step/trials.h"

#include <cstdint>

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

}  // namespace ddprun
