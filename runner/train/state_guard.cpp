// SPDX-License-Identifier: MIT
#include "train/state_guard.h"

#include "train/rng_state.h"

#include <torch/types.h>

namespace ddprun {

StateGuard::StateGuard(std::vector<at::Tensor> buffers, DeviceBackend* backend)
    : buffers_(std::move(buffers)), backend_(backend), generators_(rng_state(backend)) {
  for (const auto& buffer : buffers_) values_.push_back(buffer.clone());
}

StateGuard::~StateGuard() {
  if (!kept_) return;
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < values_.size(); ++i) buffers_[i].copy_(values_[i]);
  set_rng_state(generators_, backend_);
}

}  // namespace ddprun
