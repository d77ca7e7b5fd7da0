// SPDX-License-Identifier: MIT
#include <ddprun/optimizer.h>

#include <ATen/ATen.h>

namespace ddprun {

Optimizer::~Optimizer() = default;

void Optimizer::start(std::vector<NamedParameter> parameters) {
  groups_.push_back({.lr = initial_lr_, .parameters = std::move(parameters)});
}

void Optimizer::step_unless(const at::Tensor& found_inf) {
  if (found_inf.item<float>() == 0) step();
}

bool Optimizer::send_lrs() { return false; }

}  // namespace ddprun
