// SPDX-License-Identifier: MIT
// An exponential moving average of the weights: average = decay * average + (1 - decay) * weight after each step, begun
// with the weights after the first (as torch.optim.swa_utils.AveragedModel). Buffers are not averaged. The averages of
// 16-bit weights are float32: a step moves them by less than 16 bits can tell. With a decay of 0 there is no average.
#pragma once

#include "checkpoint/tensor_dict.h"

#include <ddprun/optimizer.h>

#include <string>
#include <vector>

namespace ddprun {

class Ema {
 public:
  Ema(std::vector<NamedParameter> parameters, double decay);

  // After a step. `found_inf` (float32 scalar, may be undefined) is 1 where there was no step, else 0. Until the first
  // that counted, it is read, which waits for a GPU.
  void update(const at::Tensor& found_inf);

  // Puts the averages in the place of the weights; the second call puts these back, to the bit. Does nothing before the
  // first update. No update in between.
  void exchange();

  TensorDict state() const;                  // by the parameters' names; empty before the first update
  void load_state(const TensorDict& state);  // throws UserError naming the parameter that does not fit

 private:
  std::vector<at::Tensor> weights() const;
  std::vector<at::Tensor> wide_weights() const;

  std::vector<NamedParameter> parameters_;
  std::vector<at::Tensor> averages_;  // in the parameters' order; they stay where recorded steps look for them
  std::vector<at::Tensor> kept_;      // the weights, while the averages are in their place
  double decay_;
};

}  // namespace ddprun
