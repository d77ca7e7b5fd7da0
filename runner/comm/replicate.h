// SPDX-License-Identifier: MIT
// Makes every rank hold the same network.
#pragma once

#include "comm/communicator.h"

#include <ddprun/model.h>
#include <ddprun/optimizer.h>
#include <ddprun/parameters.h>

#include <vector>

namespace ddprun {

// Returns parameters and buffers under each of their names, as a checkpoint stores them.
std::vector<NamedParameter> state_tensors(const Model& model);

std::vector<at::Tensor> buffers(const Model& model);

// Throws UserError on every rank, naming the first parameter in which a rank differs from rank 0 in name, shape or
// type.
void verify_same_model(const Model& model, Communicator& communicator);

// Does the same within one process, for a model and another that was made later from the same options.
void verify_same_model(const Model& model, const Model& copy);

// Copies rank 0's parameters and buffers to all ranks. Parameters on the CPU that do not train are written to only if
// they differ, so that processes can share their memory.
void broadcast_state(const Model& model, Communicator& communicator);

}  // namespace ddprun
