// SPDX-License-Identifier: MIT
// Whether the SDK's layers do several operations in one pass on CPUs. Threads: any.
#pragma once

#include <ddprun/api.h>

namespace ddprun {

// What BatchNorm::pool_relu(), max_pool_relu() and dropout() ask in each forward; true unless set otherwise. False:
// they call LibTorch's operations one after the other. Of the process: trainer.fused_layers sets it before the model is
// made.
DDPRUN_API bool fused_layers();
DDPRUN_API void set_fused_layers(bool fused);

}  // namespace ddprun
