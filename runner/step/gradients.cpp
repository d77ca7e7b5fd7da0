// SPDX-License-Identifier: MIT
#include "step/gradients.h"

#include <ATen/ATen.h>
#include <torch/types.h>

#include <algorithm>
#include <atomic>

namespace ddprun {

std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return {};
  const bool wide =
      std::ranges::any_of(tensors, [](const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble; });
  auto norms = at::_foreach_norm(tensors, 2, wide ? at::kDouble : at::kFloat);
  for (auto& norm : norms) norm = norm.to(at::kFloat);
  return norms;
}

at::Tensor total_norm(const std::vector<at::Tensor>& norms) {
  return norms.empty() ? at::zeros({}, at::kFloat) : at::linalg_vector_norm(at::stack(norms));
}

void clip_norm(const std::vector<at::Tensor>& gradients, const at::Tensor& norm, double limit) {
  constexpr double kNoDivisionByZero = 1e-6;
  const auto factor = (limit / (norm + kNoDivisionByZero)).clamp_max(1.0);
  at::_foreach_mul_(gradients, factor);
}

void clip_value(const std::vector<at::Tensor>& gradients, double limit) {
  at::_foreach_clamp_min_(gradients, -limit);
  at::_foreach_clamp_max_(gradients, limit);
}

GradientClip::GradientClip(const TrainerConfig& config, bool scaled)
    : norm_(config.clip_norm),
      value_(config.clip_value),
      scaled_(scaled),
      total_(norm_ > 0 || (config.on_nonfinite == OnNonfinite::kSkip && !scaled)) {}

GradientClip::Norms GradientClip::apply(const std::vector<at::Tensor>& gradients, MetricSums& sums, bool counts,
                                        const std::function<Norms(const Norms&)>& of_all) const {
  Norms norms;
  if (total_ || !scaled_) norms = norms_of(gradients);
  if (total_) norms = {total_norm(of_all ? of_all(norms) : norms)};
  if (norm_ > 0) {
    if (!gradients.empty()) clip_norm(gradients, norms.front(), norm_);
    const auto shown = scaled_ ? norms.front().nan_to_num(0, 0, 0) : norms.front();  // overflows are counted
    sums.add_number("grad_norm", shown, counts);
  }
  if (value_ > 0 && !gradients.empty()) clip_value(gradients, value_);
  if (scaled_) norms.clear();
  return norms;
}

struct GradientMark::Mark {
  at::Tensor value;  // 0 or NaN
  std::atomic<bool> waiting = false;
};

GradientMark::GradientMark(const std::vector<NamedParameter>& parameters, bool enabled) {
  if (!enabled) return;
  mark_ = std::make_shared<Mark>();
  for (const auto& parameter : parameters) {
    parameter.value.register_hook([mark = mark_](const at::Tensor& gradient) {
      if (gradient.layout() != at::kStrided || !mark->waiting.exchange(false)) return at::Tensor();  // unchanged
      return gradient + mark->value.to(gradient.options());
    });
  }
}

void GradientMark::set(const at::Tensor& loss) {
  if (!mark_) return;
  mark_->value = loss.detach() * 0;
  mark_->waiting = true;
}

}  // namespace ddprun
