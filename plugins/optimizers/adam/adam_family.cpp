// SPDX-License-Identifier: MIT
#include "adam_family.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>

#include <algorithm>

namespace ddprun {

AdamFamily::AdamFamily(Options& options, double weight_decay, std::string_view weight_decay_help)
    : FusedOptimizer(options.get<double>("lr", 0.001, "learning rate", {.min = 0})) {
  const auto betas = options.get<std::vector<double>>(
      "betas", {0.9, 0.999}, "decay of the running means of the gradient and of its square", {.min = 0, .max = 1});
  const bool usable = betas.size() == 2 && std::ranges::none_of(betas, [](double beta) { return beta == 1; });
  if (!usable) options.reject("betas", "expected two numbers, each at least 0 and below 1, as in [0.9, 0.999]");
  settings_.beta1 = usable ? betas[0] : 0;
  settings_.beta2 = usable ? betas[1] : 0;
  settings_.eps = options.get<double>("eps", 1e-8, "added to the denominator", {.min = 0});
  settings_.amsgrad = options.get<bool>("amsgrad", false, "divide by the largest mean of squares so far");
  read_groups(options, weight_decay, weight_decay_help);
  remember("exp_avg", Shape::kLikeParameter);
  remember("exp_avg_sq", Shape::kLikeParameter);
  remember("step", Shape::kNumber);
  if (settings_.amsgrad) remember("max_exp_avg_sq", Shape::kLikeParameter);
}

void AdamFamily::update(const FusedCall& call) {
  const auto& memory = call.memory;
  const Moments moments{.mean = memory[0],
                        .square = memory[1],
                        .max_square = settings_.amsgrad ? at::TensorList(memory[3]) : at::TensorList(),
                        .steps = memory[2]};
  at::_foreach_add_(moments.steps, 1);
  update(call, moments, settings_);
  if (call.found_inf) at::_foreach_sub_(moments.steps, std::vector<at::Tensor>(moments.steps.size(), *call.found_inf));
}

}  // namespace ddprun
