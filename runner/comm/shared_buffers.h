// SPDX-License-Identifier: MIT
// The buffers that training steps read, which are rank 0's on every rank. Running statistics of a BatchNorm that trains
// are read by no step: they are exchanged where somebody reads them, before an evaluation, or once the layer is no
// longer in training mode. Rank 0's own, which count, are the same in either way.
#pragma once

#include <ddprun/model.h>

#include <memory>
#include <vector>

namespace ddprun {

class SharedBuffers {
 public:
  // With `all` every buffer is one that steps read.
  SharedBuffers(const Model& model, bool all);

  // Before a step; the modules' modes decide, which are those of all ranks.
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
