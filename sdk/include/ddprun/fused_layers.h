// SPDX-License-Identifier: MIT
// Whether the SDK's layers fuse several operations into one pass on CPUs. Safe to call from any thread.
#pragma once

#include <ddprun/api.h>

namespace ddprun {

// BatchNorm::pool_relu(), max_pool_relu() and dropout() ask this in each forward. The default is true; if false, they
// call LibTorch's operations one after the other. The setting is process-wide: trainer.fused_layers sets it before the
// model is made.
DDPRUN_API bool fused_layers();
DDPRUN_API void set_fused_layers(bool fused);

}  // namespace ddprun
