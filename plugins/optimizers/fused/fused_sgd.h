// SPDX-License-Identifier: MIT
// Stochastic gradient descent by LibTorch's kernel, as a building block for optimizers.
#pragma once

#include "fused_optimizer.h"

namespace ddprun {

struct SgdRule {
  double momentum = 0, dampening = 0;
  bool nesterov = false;
};

// Computes buffer = momentum * buffer + (1 - dampening) * (gradient + weight_decay * parameter); parameter -= lr *
// buffer, or with Nesterov lr * (gradient + weight_decay * parameter + momentum * buffer). The buffers are the first
// memory of the call; with momentum 0 they are left alone and may be missing.
void fused_sgd(const FusedCall& call, const SgdRule& rule);

}  // namespace ddprun
