// SPDX-License-Identifier: MIT
// BatchNorm over the global batch.
#pragma once

#include "comm/communicator.h"

#include <ddprun/batch_norm.h>
#include <ddprun/model.h>

#include <memory>

namespace ddprun {

// Attaches the ranks to every ddprun::BatchNorm of a model and returns what they share, whose `counts` the caller sets
// before each training batch. In a world of one the layers stay as they are: the batch is the global batch. The
// communicator must outlive the model's training. Throws UserError that names the layers with statistics of another
// kind, such as torch::nn::BatchNorm2d, which cannot be synchronised.
std::shared_ptr<BatchStatistics> synchronize_batch_norm(Model& model, Communicator& communicator);

// Gives every ddprun::BatchNorm of a model these statistics; without any, each rank normalises alone.
void attach_statistics(Model& model, const std::shared_ptr<BatchStatistics>& statistics);

}  // namespace ddprun
