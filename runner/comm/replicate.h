// SPDX-License-Identifier: MIT
// Making every rank hold the same network.
#pragma once

#include "comm/communicator.h"

#include <ddprun/model.h>
#include <ddprun/optimizer.h>
#include <ddprun/parameters.h>

#include <vector>

namespace ddprun {

// Parameters and buffers by name, each name: what a checkpoint holds.
std::vector<NamedParameter> state_tensors(const Model& model);

std::vector<at::Tensor> buffers(const Model& model);

// Throws on every rank a UserError naming the first parameter in which a rank differs from rank 0 in name, shape or
// type.
void verify_same_model(const Model& model, Communicator& communicator);

// The same within one process, of a model and one that was made after it from the same options.
void verify_same_model(const Model& model, const Model& copy);

// Rank 0's parameters and buffers become everybody's.
void broadcast_state(const Model& model, Communicator& communicator);

}  // namespace ddprun
