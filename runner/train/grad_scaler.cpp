// SPDX-License-Identifier: MIT
#include "train/grad_scaler.h"

#include <ATen/ATen.h>

#include <map>

namespace ddprun {
namespace {

constexpr double kGrowth = 2, kBackoff = 0.5;
constexpr int64_t kGrowthInterval = 2000;

}  // namespace

GradScaler::GradScaler(const State& state, c10::Device device)
    : scale_(at::full({}, state.scale, at::TensorOptions(device).dtype(at::kFloat))),
      since_change_(at::full({}, state.steps_since_change, at::TensorOptions(device).dtype(at::kInt))),
      overflow_(at::zeros({}, at::TensorOptions(device).dtype(at::kFloat))),
      overflows_(state.overflows) {}

at::Tensor GradScaler::unscale(const std::vector<at::Tensor>& gradients) {
  overflow_.zero_();
  const auto inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  std::map<c10::ScalarType, std::vector<at::Tensor>> by_type;  // the kernel takes tensors of one type
  for (const auto& gradient : gradients) by_type[gradient.scalar_type()].push_back(gradient);
  for (auto& [type, tensors] : by_type) {
    at::_amp_foreach_non_finite_check_and_unscale_(tensors, overflow_, inverse);
  }
  return overflow_;
}

void GradScaler::update() {
  at::_amp_update_scale_(scale_, since_change_, overflow_, kGrowth, kBackoff, kGrowthInterval);
}

void GradScaler::count() {
  settle();
  last_overflow_.emplace(overflow_);
}

int64_t GradScaler::overflows() {
  settle();
  return overflows_;
}

GradScaler::State GradScaler::state() {
  settle();
  return {.scale = scale_.item<double>(), .steps_since_change = since_change_.item<int64_t>(), .overflows = overflows_};
}

void GradScaler::settle() {
  if (!last_overflow_) return;
  overflows_ += last_overflow_->get()[0] != 0 ? 1 : 0;
  last_overflow_.reset();
}

}  // namespace ddprun
