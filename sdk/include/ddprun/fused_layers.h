// SPDX-License-Identifier: MIT
// Whether the SDK's layers fuse several operations into one pass.
#pragma once

#include <ddprun/api.h>

namespace ddprun {

// BatchNorm::relu() and pool_relu(), max_pool_relu(), dropout() and cross_entropy() ask this in each forward. The
// default is true; if false, they call LibTorch's operations one after the other. The setting is the calling thread's.
DDPRUN_API bool fused_layers();

// Sets it on this thread for a scope. The runner does, from trainer.fused_layers, in each thread that calls a model.
class DDPRUN_API FusedLayersScope {
 public:
  // Until the scope ends, which puts back what was set before it.
  explicit FusedLayersScope(bool fused);
  ~FusedLayersScope();
  FusedLayersScope(const FusedLayersScope&) = delete;
  FusedLayersScope& operator=(const FusedLayersScope&) = delete;

 private:
  bool before_;
};

}  // namespace ddprun
