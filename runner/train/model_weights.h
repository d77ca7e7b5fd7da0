// SPDX-License-Identifier: MIT
// Loads the weights of a checkpoint into the model that saved them.
#pragma once

#include <ddprun/model.h>
#include <ddprun/safetensors.h>

#include <string>

namespace ddprun {

// Copies parameters and buffers into the model by name. Throws UserError, beginning with `where`, for a missing or
// unknown name and for another shape.
void load_weights(const Model& model, const TensorDict& saved, const std::string& where);

}  // namespace ddprun
