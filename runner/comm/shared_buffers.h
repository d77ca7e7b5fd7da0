// SPDX-License-Identifier: MIT
// The buffers that training steps read, which are rank 0's on every rank. No step reads the running statistics of a
// BatchNorm that is training: they are exchanged only before somebody reads them, in an evaluation, or once the layer
// is no longer in training mode. Rank 0's own, which count, are the same either way.
#pragma once

#include <ddprun/model.h>

#include <memory>
#include <vector>

namespace ddprun {

class SharedBuffers {
 public:
  // If `all` is set, every buffer counts as one that steps read.
  SharedBuffers(const Model& model, bool all);

  // Call before a step. The result depends on the modules' training modes, which are the same on all ranks.
  std::vector<at::Tensor> read_by_step() const;

 private:
  struct Statistics {
    std::shared_ptr<torch::nn::Module> norm;
    std::vector<at::Tensor> buffers;
  };

  std::vector<at::Tensor> always_;
  std::vector<Statistics> statistics_;
};

}  // namespace ddprun
