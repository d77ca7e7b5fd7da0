// SPDX-License-Identifier: MIT
// Stochastic gradient descent with momentum in PyTorch's form: buffer = momentum * buffer + (1 - dampening) * gradient.
#include "../fused/fused_sgd.h"

namespace {

class Sgd final : public ddprun::FusedOptimizer {
 public:
  explicit Sgd(ddprun::Options& options)
      : FusedOptimizer(options.get<double>("lr", 0.01, "learning rate", {.min = 0})),
        rule_{.momentum = options.get<double>("momentum", 0, "share of the previous direction that is kept",
                                              {.min = 0, .max = 1}),
              .dampening = options.get<double>("dampening", 0, "share of the gradient kept out of the momentum",
                                               {.min = 0, .max = 1}),
              .nesterov = options.get<bool>("nesterov", false, "Nesterov momentum: look ahead along the direction")} {
    read_groups(options, 0, "L2 penalty, added to the gradient");
    if (rule_.nesterov && (rule_.momentum == 0 || rule_.dampening != 0))
      options.reject("nesterov", "needs momentum above 0 and dampening 0");
    if (rule_.dampening != 0 && rule_.momentum == 0) options.reject("dampening", "has no effect without momentum");
    if (rule_.momentum != 0) remember("momentum", Shape::kLikeParameter);
    if (rule_.dampening != 0) read_overflow_first();
  }

 private:
  void update(const ddprun::FusedCall& call) override { fused_sgd(call, rule_); }

  const ddprun::SgdRule rule_;
};

}  // namespace

DDPRUN_OPTIMIZER(Sgd, "sgd", "stochastic gradient descent with momentum")
