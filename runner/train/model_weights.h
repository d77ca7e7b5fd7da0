// SPDX-License-Identifier: MIT
// Weights from disk into a model.
#pragma once

#include "checkpoint/tensor_dict.h"

#include <ddprun/model.h>

#include <string>

namespace ddprun {

// Copies parameters and buffers of these names into the model. Throws UserError, beginning with `where`, for a name
// that the model lacks or misses and for another shape.
void load_weights(const Model& model, const TensorDict& saved, const std::string& where);

// trainer.init_weights: a .safetensors file, a checkpoint, or a run, whose newest good checkpoint is taken; the
// averaged weights where the checkpoint has them.
void load_initial_weights(const Model& model, const std::string& path);

}  // namespace ddprun
