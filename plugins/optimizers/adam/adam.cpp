// SPDX-License-Identifier: MIT
// Adam (Kingma, Ba: "Adam: a method for stochastic optimization", 2014).
#include "adam_family.h"

#include <ATen/ops/_fused_adam.h>

namespace {

class Adam final : public ddprun::AdamFamily {
 public:
  explicit Adam(ddprun::Options& options) : AdamFamily(options, 0, "L2 penalty, added to the gradient") {}

 private:
  void update(const ddprun::FusedCall& call, const Moments& m, const Settings& s) override {
    call.with_lr([&](const auto& lr) {
      at::_fused_adam_(call.parameters, call.gradients, m.mean, m.square, m.max_square, m.steps, lr, s.beta1, s.beta2,
                       call.weight_decay, s.eps, s.amsgrad, /*maximize=*/false, /*grad_scale=*/{}, call.found_inf);
    });
  }
};

}  // namespace

DDPRUN_OPTIMIZER(Adam, "adam", "steps scaled by running means of the gradient and its square")
