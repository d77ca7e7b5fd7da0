// SPDX-License-Identifier: MIT
// BatchNorm over the global batch.
#pragma once

#include "comm/communicator.h"

#include <ddprun/batch_norm.h>
#include <ddprun/model.h>

#include <memory>

namespace ddprun {

// Attaches the ranks to every ddprun::BatchNorm of a model and returns the object they share, whose `counts` the caller
// sets before each training batch. With one rank the layers are left alone, since its batch is the global batch. The
// communicator must outlive the model's training. Throws UserError that names the layers with other running statistics,
// such as torch::nn::BatchNorm2d, which cannot be synchronized.
std::shared_ptr<BatchStatistics> synchronize_batch_norm(Model& model, Communicator& communicator);

// Gives every ddprun::BatchNorm of a model these statistics; with none, each rank normalizes alone.
void attach_statistics(Model& model, const std::shared_ptr<BatchStatistics>& statistics);

}  // namespace ddprun
