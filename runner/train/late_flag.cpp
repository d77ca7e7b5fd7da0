// SPDX-License-Identifier: MIT
#include "train/late_flag.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace ddprun {

LateFlag::LateFlag(const at::Tensor& flag)
    : host_(at::empty({}, at::TensorOptions().dtype(at::kFloat).pinned_memory(flag.is_cuda()))) {
  host_.copy_(flag, /*non_blocking=*/true);
  if (!flag.is_cuda()) return;
  const auto device = flag.device();
  arrived_.emplace(device.type());
  arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

bool LateFlag::raised() {
  if (arrived_) arrived_->synchronize();
  return *host_.const_data_ptr<float>() != 0;
}

}  // namespace ddprun
