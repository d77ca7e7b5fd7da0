// SPDX-License-Identifier: MIT
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

namespace ddprun {

// Guards hand-written backward passes, which autograd cannot differentiate again.
inline void require_once_differentiable(const char* operation) {
  TORCH_CHECK(!at::GradMode::is_enabled(), operation,
              " in one pass cannot be differentiated twice (create_graph); trainer.fused_layers=false uses "
              "LibTorch's operations instead");
}

}  // namespace ddprun
