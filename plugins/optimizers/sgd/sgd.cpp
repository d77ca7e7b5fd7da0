// SPDX-License-Identifier: MIT
// Stochastic gradient descent with momentum, in the form of PyTorch's: buffer = momentum * buffer + (1 - dampening) *
// gradient.
#include <ATen/ops/_fused_sgd.h>

#include "../fused/fused_optimizer.h"

namespace {

class Sgd final : public ddprun::FusedOptimizer {
 public:
  explicit Sgd(ddprun::Options& options)
      : FusedOptimizer(options.get<double>("lr", 0.01, "learning rate", {.min = 0})),
        momentum_(
            options.get<double>("momentum", 0, "share of the previous direction that is kept", {.min = 0, .max = 1})),
        dampening_(options.get<double>("dampening", 0, "share of the gradient kept out of the momentum",
                                       {.min = 0, .max = 1})),
        nesterov_(options.get<bool>("nesterov", false, "Nesterov momentum: look ahead along the direction")) {
    read_groups(options, 0, "L2 penalty, added to the gradient");
    if (nesterov_ && (momentum_ == 0 || dampening_ != 0))
      options.reject("nesterov", "needs momentum above 0 and dampening 0");
    if (momentum_ != 0) remember("momentum", Shape::kLikeParameter);
    if (dampening_ != 0) read_overflow_first();
  }

 private:
  void update(const ddprun::FusedCall& call) override {
    const auto momentum = call.memory.empty() ? at::TensorList() : at::TensorList(call.memory[0]);
    at::_fused_sgd_(call.parameters, call.gradients, momentum, call.weight_decay, momentum_, call.lr, dampening_,
                    nesterov_,
                    /*maximize=*/false, call.first_step, /*grad_scale=*/{}, call.overflow);
  }

  const double momentum_, dampening_;
  const bool nesterov_;
};

}  // namespace

DDPRUN_OPTIMIZER(Sgd, "sgd", "stochastic gradient descent with momentum")
