// SPDX-License-Identifier: MIT
// Adam with decoupled weight decay (Loshchilov, Hutter: "Decoupled weight decay regularization", 2017).
#include "adam_family.h"

#include <ATen/ops/_fused_adamw.h>

namespace {

class AdamW final : public ddprun::AdamFamily {
 public:
  explicit AdamW(ddprun::Options& options)
      : AdamFamily(options, 0.01, "share of each weight that a step of learning rate 1 removes") {}

 private:
  void update(const ddprun::FusedCall& call, const Moments& m, const Settings& s) override {
    call.with_lr([&](const auto& lr) {
      at::_fused_adamw_(call.parameters, call.gradients, m.mean, m.square, m.max_square, m.steps, lr, s.beta1, s.beta2,
                        call.weight_decay, s.eps, s.amsgrad, /*maximize=*/false, /*grad_scale=*/{}, call.found_inf);
    });
  }
};

}  // namespace

DDPRUN_OPTIMIZER(AdamW, "adamw", "Adam with weight decay apart from the gradient")
