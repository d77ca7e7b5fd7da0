// SPDX-License-Identifier: MIT
// All weights of a checkpoint for those who have no model: also what it leaves out with checkpoint.only_trainable.
#pragma once

#include "checkpoint/checkpoint.h"

#include <ddprun/safetensors.h>

namespace ddprun {

// Returns inference_weights() of a verified checkpoint, with what it leaves out. That is made again from the experiment
// that its run, the folder around it, has recorded: the model's file, pretrained.file and seed; and from the run's data
// where the model adapts its first weights to them. Throws UserError if it cannot be, or comes out otherwise.
TensorDict whole_weights(const CheckpointInfo& info);

}  // namespace ddprun
