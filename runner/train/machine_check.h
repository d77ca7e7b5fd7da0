// SPDX-License-Identifier: MIT
// Finds machines that compute other bits than others, with trainer.shards. Each rank computes one step of the model on
// made weights and the first training samples, which gives one digest wherever the processor or GPU, its instruction
// set, the number of threads and the libraries are alike.
#pragma once

#include "train/context.h"
#include "train/train_state.h"
#include "train/train_step.h"

#include <string>

namespace ddprun {

// Returns what decides the bits that this rank computes: "AMD EPYC 9B14, AVX512, 1 thread, LibTorch 2.11.0".
std::string machine_text(const Context& context);

// Compares the ranks, and them with the attempt that saved `state`; notes in it what rank 0 found. Throws UserError
// that names each rank with other bits and its machine; warns if all are alike, but other than before. Leaves the model
// as it was. Collective.
void require_same_machines(const Context& context, TrainStep& step, TrainState& state);

}  // namespace ddprun
