// SPDX-License-Identifier: MIT
#pragma once

namespace ddprun {

// `ddprun complete` is called at every press of Tab, and the constructors of LibTorch take 0.15 s. Called before them,
// by the dynamic linker, this turns such a process into libexec/ddprun-complete, which does without LibTorch and starts
// ddprun again where it needs plugins loaded. Any other process it leaves alone. libc does not know the environment
// yet.
void complete_at_once(int argc, char** argv, char** environment) noexcept;

}  // namespace ddprun
