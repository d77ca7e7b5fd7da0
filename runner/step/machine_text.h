// SPDX-License-Identifier: MIT
#pragma once

#include "device/device_backend.h"

#include <string>

namespace ddprun {

// Returns what decides the bits that this rank computes: "AMD EPYC 9B14, AVX512, 1 thread, LibTorch 2.11.0". The
// backend is null on the CPU.
std::string machine_text(const DeviceBackend* backend);

}  // namespace ddprun
