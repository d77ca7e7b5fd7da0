// SPDX-License-Identifier: MIT
#include <ddprun/fused_layers.h>

#include <atomic>

namespace ddprun {
namespace {

std::atomic<bool> fused = true;

}  // namespace

bool fused_layers() { return fused; }

void set_fused_layers(bool value) { fused = value; }

}  // namespace ddprun
