// SPDX-License-Identifier: MIT
// How many workers on which device, from the experiment's `launch:` and what the machine has.
#pragma once

#include "agent/machine.h"
#include "comm/device_backend.h"
#include "config/experiment.h"
#include "launch/worker_process.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct LaunchChoice {
  int64_t workers = 1;
  Device device = Device::kCpu;  // not kAuto
  int64_t gpus = 0;              // of each worker: all with trainer.strategy dp, else one; none on the CPU
  int64_t shared = 0;            // GPUs that more workers share; 0: each worker has its own
  int64_t threads = 1;           // of each worker's kernels
  std::string warning;           // where what was chosen is slow here; else empty
};

struct Machine {
  int64_t gpus = 0;                   // that this process may use
  int64_t cores = 1;                  // the same
  bool bf16 = true;                   // LibTorch's kernels for it run here: on x86-64, those of oneDNN, from AVX-512 on
  int driver_cuda = kCuda.version;    // the newest CUDA that the GPUs' driver runs
  std::string driver_problem = {};    // why that does not start; empty: it does, or there is none
  std::vector<GpuModel> models = {};  // of the GPUs, as far as they are known
};

Machine this_machine();

// Throws UserError where a batch has fewer samples than there are workers; `named` is what the text calls those.
void require_a_sample_for_each(const TrainerConfig& trainer, int64_t workers, const std::string& named);

// Throws UserError for more workers than GPUs, for a GPU where there is none or where it or its driver is too old, for
// fewer samples in a batch than workers, and for what the trainer is told to do and the device cannot.
LaunchChoice choose_launch(const LaunchConfig& config, const TrainerConfig& trainer, const Machine& machine);

// Returns the setting for which an experiment needs a GPU, "trainer.precision=fp16"; empty if it trains without one.
std::string need_of_gpu(const LaunchConfig& config, const TrainerConfig& trainer);

// Returns a warning if so many workers have few samples each; else an empty text.
std::string small_parts_warning(const TrainerConfig& trainer, int64_t world_size);

// What workers are told of it, all of a node alike.
WorkerPlace node_place(const LaunchChoice& launch);
// What their libraries are told.
Variables thread_variables(const LaunchChoice& launch);

}  // namespace ddprun
