// SPDX-License-Identifier: MIT
#include "step/grad_scaler.h"

#include "base/current_op.h"
#include "metrics/packed.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

namespace ddprun {

DeviceNumbers::DeviceNumbers(const at::Tensor& numbers)
    : host_(numbers.is_cuda() ? at::empty(numbers.sizes(), numbers.options().device(at::kCPU).pinned_memory(true))
                              : numbers.clone()) {
  if (!numbers.is_cuda()) return;
  host_.copy_(numbers, /*non_blocking=*/true);
  const auto device = numbers.device();
  arrived_.emplace(device.type());
  arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

const at::Tensor& DeviceNumbers::get() {
  if (!are_there()) {
    const CurrentOpScope waiting(kWaitsForGpu);
    arrived_->synchronize();
  }
  return host_;
}

bool DeviceNumbers::are_there() const { return !arrived_ || arrived_->query(); }

bool DeviceNumbers::all_finite(int64_t count) {
  const std::span numbers(get().const_data_ptr<double>(), static_cast<size_t>(count));
  return std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); });
}

namespace {

constexpr double kGrowth = 2, kBackoff = 0.5;
constexpr int64_t kGrowthInterval = 2000;

}  // namespace

GradScaler::GradScaler(const State& state, c10::Device device, bool enabled)
    : initial_(state), overflows_(state.overflows) {
  if (!enabled) return;
  const at::TensorOptions there(device);
  scale_ = at::full({}, state.scale, there.dtype(at::kFloat));
  since_change_ = at::full({}, state.steps_since_change, there.dtype(at::kInt));
  found_inf_ = at::zeros({}, there.dtype(at::kFloat));
}

at::Tensor GradScaler::unscale(const std::vector<at::Tensor>& gradients) {
  if (!enabled()) return {};
  found_inf_.zero_();
  const auto inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  std::map<c10::ScalarType, std::vector<at::Tensor>> by_type;  // the kernel accepts tensors of one type
  for (const auto& gradient : gradients) by_type[gradient.scalar_type()].push_back(gradient);
  for (auto& [type, tensors] : by_type) {
    at::_amp_foreach_non_finite_check_and_unscale_(tensors, found_inf_, inverse);
  }
  return found_inf_;
}

void GradScaler::update() {
  if (enabled()) at::_amp_update_scale_(scale_, since_change_, found_inf_, kGrowth, kBackoff, kGrowthInterval);
}

void GradScaler::count() {
  settle();
  if (enabled()) last_found_inf_.emplace(packed({found_inf_}));
}

int64_t GradScaler::overflows() {
  settle();
  return enabled() ? overflows_ : 0;
}

GradScaler::State GradScaler::state() {
  if (!enabled()) return initial_;
  settle();
  return {.scale = scale_.item<double>(), .steps_since_change = since_change_.item<int64_t>(), .overflows = overflows_};
}

void GradScaler::settle() {
  if (!last_found_inf_) return;
  overflows_ += last_found_inf_->get().item<double>() != 0 ? 1 : 0;
  last_found_inf_.reset();
}

}  // namespace ddprun
