// SPDX-License-Identifier: MIT
#include "train/gradient_clip.h"

#include <ATen/ATen.h>

namespace ddprun {

at::Tensor gradient_norm(const std::vector<at::Tensor>& gradients) {
  if (gradients.empty()) return at::zeros({}, at::kFloat);
  auto norms = at::_foreach_norm(gradients);
  for (auto& norm : norms) norm = norm.to(at::kFloat);
  return at::linalg_vector_norm(at::stack(norms));
}

at::Tensor clip_norm(const std::vector<at::Tensor>& gradients, double limit) {
  const auto norm = gradient_norm(gradients);
  constexpr double kNoDivisionByZero = 1e-6;
  const auto factor = (limit / (norm + kNoDivisionByZero)).clamp_max(1.0);
  at::_foreach_mul_(gradients, factor);
  return norm;
}

void clip_value(const std::vector<at::Tensor>& gradients, double limit) {
  at::_foreach_clamp_min_(gradients, -limit);
  at::_foreach_clamp_max_(gradients, limit);
}

}  // namespace ddprun
