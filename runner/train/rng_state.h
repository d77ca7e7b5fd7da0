// SPDX-License-Identifier: MIT
// The states of this process's random generators, which dropout and the like draw from.
#pragma once

#include "checkpoint/checkpoint.h"
#include "comm/device_backend.h"

namespace ddprun {

// {"cpu": ..., "device": ..., "device_1": ...}: the last two only with a backend, one for each of its devices.
TensorDict rng_state(const DeviceBackend* backend);

// Sets what `state` holds; a generator without an entry keeps its own.
void set_rng_state(const TensorDict& state, const DeviceBackend* backend);

// Every rank draws its own numbers, the same in every run of one seed. Before the model is built all ranks take rank
// 0's. The further devices of one process (trainer.strategy dp) draw what the ranks after it would.
void seed_generators(uint64_t seed, int64_t rank, const DeviceBackend* backend);

}  // namespace ddprun
