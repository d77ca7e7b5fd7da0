// SPDX-License-Identifier: MIT
// Stochastic gradient descent as LibTorch's kernel has it, for optimizers that make their steps of it.
#pragma once

#include "fused_optimizer.h"

namespace ddprun {

struct SgdRule {
  double momentum = 0, dampening = 0;
  bool nesterov = false;
};

// buffer = momentum * buffer + (1 - dampening) * (gradient + weight_decay * parameter); parameter -= lr * buffer, or
// with Nesterov lr * (gradient + weight_decay * parameter + momentum * buffer). The buffers are the first memory of the
// call, which may have none where momentum is 0; they stay as they are then.
void fused_sgd(const FusedCall& call, const SgdRule& rule);

}  // namespace ddprun
