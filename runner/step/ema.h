// SPDX-License-Identifier: MIT
// Keeps an exponential moving average of the weights: average = decay * average + (1 - decay) * weight after each step,
// starting with the weights after the first (as torch.optim.swa_utils.AveragedModel). Buffers are not averaged. The
// averages of 16-bit weights are float32: a step moves them by less than 16 bits resolve. A decay of 0 disables it.
#pragma once

#include "sharing/master_weights.h"
#include "sharing/optimizer_share.h"

#include <ddprun/optimizer.h>
#include <ddprun/safetensors.h>

#include <string>
#include <vector>

namespace ddprun {

class Ema {
 public:
  // With a shared optimizer, each rank averages its own parameters, and has the averages of those alone. Of weights
  // with `masters`, which outlives it and may be null, it averages those.
  Ema(std::vector<NamedParameter> parameters, double decay, OptimizerShare share = {},
      const MasterWeights* masters = nullptr);

  // Averages these parameters from now on. Those that it has averaged keep their averages; those of the others begin
  // with their weights, as if those had been averaged without changing.
  void follow(std::vector<NamedParameter> parameters);

  // Updates the averages after a step. `found_inf` (float32 scalar, may be undefined) is 1 if the step was skipped,
  // else 0. It is read, which waits for a GPU, until the first step that counts.
  void update(const at::Tensor& found_inf);

  // Swaps averages and weights; the second call restores the weights bit for bit. Does nothing before the first update.
  // There must be no update in between. With a shared optimizer, the first call is collective.
  void exchange();

  bool has_begun() const { return has_begun_; }  // whether there was an update that counted

  TensorDict state() const;  // by the parameters' names; empty before the first update
  // Takes what state() has returned, and perhaps more. Throws UserError naming the parameter that does not fit.
  void load_state(const TensorDict& state);

 private:
  std::vector<at::Tensor> wide_weights() const;

  OptimizerShare share_;
  const MasterWeights* masters_;
  std::vector<NamedParameter> all_, parameters_;  // parameters_: this rank's
  std::vector<at::Tensor> averages_;              // in the parameters' order; captured steps rely on their addresses
  std::vector<at::Tensor> kept_;                  // all weights, while swapped out
  double decay_;
  bool has_begun_ = false;
};

}  // namespace ddprun
