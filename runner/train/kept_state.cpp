// SPDX-License-Identifier: MIT
#include "train/kept_state.h"

#include "train/rng_state.h"

#include <torch/types.h>

namespace ddprun {

KeptState::KeptState(std::vector<at::Tensor> buffers, DeviceBackend* backend)
    : buffers_(std::move(buffers)), backend_(backend), generators_(rng_state(backend)) {
  for (const auto& buffer : buffers_) values_.push_back(buffer.clone());
}

KeptState::~KeptState() {
  if (!kept_) return;
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < values_.size(); ++i) buffers_[i].copy_(values_[i]);
  set_rng_state(generators_, backend_);
}

}  // namespace ddprun
