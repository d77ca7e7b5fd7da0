// SPDX-License-Identifier: MIT
// Checkpoints between the ranks: rank 0 alone reads and writes them, so that nobody else need see the run's folder.
#pragma once

#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"

#include <string>
#include <vector>

namespace ddprun {

// Every rank's tensors, by rank, on rank 0; nothing on the others. For small ones: each goes around as many times as
// there are ranks. Collective.
std::vector<TensorDict> gather_tensors(const TensorDict& mine, Communicator& communicator);

// What rank 0 reads of a checkpoint that was verified, on every rank; but the model on rank 0 alone, which gives it to
// the others by broadcast_state(). A rank holds what it gets once, and 256 MiB meanwhile. Collective. Throws UserError
// where rank 0 cannot read it.
Checkpoint read_on_all(const std::string& path, Communicator& communicator);

}  // namespace ddprun
