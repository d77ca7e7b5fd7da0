// SPDX-License-Identifier: MIT
// Loads weights from disk into a model.
#pragma once

#include "checkpoint/tensor_dict.h"

#include <ddprun/model.h>

#include <string>

namespace ddprun {

// Copies parameters and buffers into the model by name. Throws UserError, beginning with `where`, for a missing or
// unknown name and for another shape.
void load_weights(const Model& model, const TensorDict& saved, const std::string& where);

// Loads trainer.init_weights: a .safetensors file, a checkpoint, or a run's newest good checkpoint; the averaged
// weights if the checkpoint has them.
void load_initial_weights(const Model& model, const std::string& path);

}  // namespace ddprun
