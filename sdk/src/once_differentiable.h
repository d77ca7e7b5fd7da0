// SPDX-License-Identifier: MIT
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

namespace ddprun {

// Guards hand-written backward passes, which autograd cannot differentiate again.
inline void require_once_differentiable(const char* operation) {
  TORCH_CHECK(!at::GradMode::is_enabled(), operation,
              " cannot be differentiated twice (create_graph) on a CPU in channels_last; "
              "trainer.memory_format=channels_first uses "
              "LibTorch's operations instead");
}

}  // namespace ddprun
