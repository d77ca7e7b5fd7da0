// SPDX-License-Identifier: MIT
#include "train/grad_scaler.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

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
  settle();
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
  last_overflow_ = at::empty({}, at::TensorOptions().dtype(at::kFloat).pinned_memory(overflow_.is_cuda()));
  last_overflow_.copy_(overflow_, /*non_blocking=*/true);
  if (!overflow_.is_cuda()) return;
  const auto device = overflow_.device();
  arrived_.emplace(device.type());
  arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
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
  if (!last_overflow_.defined()) return;
  if (arrived_) arrived_->synchronize();
  overflows_ += last_overflow_.item<float>() != 0 ? 1 : 0;
  last_overflow_.reset();
}

}  // namespace ddprun
