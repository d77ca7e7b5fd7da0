// SPDX-License-Identifier: MIT
// Options and state that adam and adamw share; they differ only in the kernel, in how the weights decay.
#pragma once

#include "../fused/fused_optimizer.h"

namespace ddprun {

class AdamFamily : public FusedOptimizer {
 protected:
  struct Settings {
    double beta1, beta2, eps;
    bool amsgrad;
  };
  struct Moments {
    at::TensorList mean, square, max_square, steps;  // max_square is empty without amsgrad
  };

  AdamFamily(Options& options, double weight_decay, std::string_view weight_decay_help);

 private:
  virtual void update(const FusedCall& call, const Moments& moments, const Settings& settings) = 0;
  void update(const FusedCall& call) final;

  Settings settings_;
};

}  // namespace ddprun
