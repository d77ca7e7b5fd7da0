// SPDX-License-Identifier: MIT
#include <ddprun/fused_layers.h>

#include <utility>

namespace ddprun {
namespace {

thread_local bool fused = true;

}  // namespace

bool fused_layers() { return fused; }

FusedLayersScope::FusedLayersScope(bool value) : before_(std::exchange(fused, value)) {}

FusedLayersScope::~FusedLayersScope() { fused = before_; }

}  // namespace ddprun
