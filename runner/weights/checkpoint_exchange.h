// SPDX-License-Identifier: MIT
// Brings checkpoints to the ranks, and what they hold to rank 0. Only rank 0 reads and writes checkpoints, so that no
// other node need see the run's folder.
#pragma once

#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"

#include <ddprun/safetensors.h>

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

// Gathers every rank's tensors, by rank, on rank 0; returns nothing on the others. For small tensors: each is sent
// around as many times as there are ranks. Collective.
std::vector<TensorDict> gather_tensors(const TensorDict& mine, Communicator& communicator);

// Returns the forms of what the other ranks pass, each under other names, and by whom. Collective.
TensorsElsewhere forms_elsewhere(const TensorDict& mine, Communicator& communicator);

// Returns on rank 0, on the host, what the other ranks pass, each under other names; nothing elsewhere. For tensors of
// any size: a rank copies 64 MiB at once. Collective.
TensorDict gather_apart(TensorDict mine, Communicator& communicator);

// Returns a verified checkpoint that rank 0 reads and `fit` changes there, on every rank; but the model on rank 0 only,
// which gives it to the others by broadcast_state(). A rank holds what it receives once, and 256 MiB meanwhile.
// Collective. Throws UserError if rank 0 cannot read it.
Checkpoint read_on_all(const std::string& path, Communicator& communicator,
                       const std::function<void(Checkpoint&)>& fit = nullptr);

}  // namespace ddprun
