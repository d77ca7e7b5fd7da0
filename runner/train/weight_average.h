// SPDX-License-Identifier: MIT
// An exponential moving average of the weights: average = decay * average + (1 - decay) * weight after each step, begun with the
// weights after the first (as torch.optim.swa_utils.AveragedModel). Buffers are not averaged.
#pragma once

#include "checkpoint/tensor_dict.h"

#include <ddprun/optimizer.h>

#include <string>
#include <vector>

namespace ddprun {

class WeightAverage {
 public:
  WeightAverage(std::vector<NamedParameter> parameters, double decay);

  // After a step. `overflow` (float32 scalar, may be undefined): where it is not 0 there was no step. Until the first that
  // counted, it is read, which waits for a GPU.
  void update(const at::Tensor& overflow);

  // Exchanges the weights and their averages; the second call takes it back, to the bit. Nothing before the first update.
  void exchange();

  TensorDict state() const;                  // by the parameters' names; empty before the first update
  void load_state(const TensorDict& state);  // throws UserError naming the parameter that does not fit

 private:
  std::vector<at::Tensor> weights() const;

  std::vector<NamedParameter> parameters_;
  std::vector<at::Tensor> averages_;  // in the parameters' order
  double decay_;
};

}  // namespace ddprun
