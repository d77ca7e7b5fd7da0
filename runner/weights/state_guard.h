// SPDX-License-Identifier: MIT
// Restores what a trial run of the model changes besides gradients at the end of the scope, unless let go: buffers
// (running statistics) and the random generators.
#pragma once

#include "checkpoint/checkpoint.h"
#include "device/device_backend.h"

#include <ddprun/model.h>
#include <ddprun/safetensors.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun {

class StateGuard {
 public:
  // `backend` is null on the CPU.
  StateGuard(std::vector<at::Tensor> buffers, DeviceBackend* backend);
  ~StateGuard();
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

  void let_go() { kept_ = false; }  // keeps the changes

 private:
  std::vector<at::Tensor> buffers_, values_;
  DeviceBackend* backend_;
  TensorDict generators_;
  bool kept_ = true;
};

// Puts a model into evaluation mode for a scope, then back into its former mode.
class EvalMode {
 public:
  explicit EvalMode(Model& model) : model_(model), was_training_(model.is_training()) { model_.eval(); }
  ~EvalMode() { model_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  Model& model_;
  bool was_training_;
};

// Returns the states of this process's random generators: {"cpu": ..., "device": ..., "device_1": ...}, the last two
// only with a backend, one for each of its devices.
TensorDict rng_state(const DeviceBackend* backend);

// Sets the states in `state`; a generator without an entry keeps its own.
void set_rng_state(const TensorDict& state, const DeviceBackend* backend);

// Seeds the generators: every rank draws different numbers, the same in every run with one seed. Before the model is
// built all ranks use rank 0's. The further devices of one process (trainer.strategy dp) draw what the next ranks
// would.
void seed_generators(uint64_t seed, int64_t rank, const DeviceBackend* backend);

// Seeds them for one shard of one step: what it draws does not depend on the rank that computes it.
void seed_shard(uint64_t seed, int64_t step, int64_t shard, const DeviceBackend* backend);

}  // namespace ddprun
