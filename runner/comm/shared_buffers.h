// SPDX-License-Identifier: MIT
// The buffers that training steps read, which are rank 0's on every rank. No step reads the running statistics of a
// BatchNorm that is training: they are exchanged only before somebody reads them, in an evaluation, or once the layer
// is no longer in training mode. Rank 0's own, which count, are the same either way. Those that are frozen
// (pretrained.freeze) do not change and stay where they are.
#pragma once

#include "comm/communicator.h"

#include <ddprun/batch_norm.h>
#include <ddprun/model.h>

#include <memory>
#include <vector>

namespace ddprun {

class SharedBuffers {
 public:
  // If `all` is set, every buffer counts as one that steps read. The model outlives it.
  SharedBuffers(const Model& model, bool all);

  // Call before a step. The result depends on the modules' training modes, which are the same on all ranks.
  std::vector<at::Tensor> read_by_step() const;

 private:
  struct Statistics {
    std::shared_ptr<torch::nn::Module> norm;
    std::vector<at::Tensor> buffers;
  };

  const Model& model_;
  std::vector<at::Tensor> always_;
  std::vector<Statistics> statistics_;
};

// BatchNorm over the global batch.

// Attaches the ranks to every ddprun::BatchNorm of a model and returns the object they share, whose `counts` the caller
// sets before each training batch. Returns null for a single rank, whose batch is the global batch. The communicator
// must outlive the model's training. Throws UserError that names the layers with other running statistics, such as
// torch::nn::BatchNorm2d, which cannot be synchronized.
std::shared_ptr<BatchStatistics> synchronize_batch_norm(Model& model, Communicator& communicator);

// Gives every ddprun::BatchNorm of a model these statistics; with none, each rank normalizes alone.
void attach_statistics(Model& model, const std::shared_ptr<BatchStatistics>& statistics);

}  // namespace ddprun
