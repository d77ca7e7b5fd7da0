// SPDX-License-Identifier: MIT
// Chooses the number of workers and their device, from the experiment's `launch:` and what the machine has.
#pragma once

#include "cluster/placement.h"
#include "config/experiment.h"
#include "device/device_backend.h"
#include "launch/launcher.h"
#include "launch/machine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct LaunchChoice {
  int64_t workers = 1;
  Device device = Device::kCpu;              // not kAuto
  int64_t gpus = 0;                          // per worker: all with trainer.strategy dp, else one; 0 on the CPU
  std::optional<int> gpu = {};               // a rank's index among the GPUs it sees; nothing: its local rank
  int64_t shared = 0;                        // GPUs that the workers share; 0: each worker has its own
  int64_t threads = 1;                       // per worker, for its kernels
  std::vector<std::vector<int>> cores = {};  // of each GPU of this machine, to which its workers are bound; empty: all
  std::string warning;                       // if the choice is slow here, or its GPUs are none; else empty
};

struct Machine {
  int64_t gpus = 0;   // available to this process
  int64_t cores = 1;  // available to this process
  bool bf16 = true;   // LibTorch has fast kernels for it here: oneDNN's need AVX-512, or ARM's BF16 extension
  int driver_cuda = kCuda.version;    // the newest CUDA that the GPUs' driver runs
  std::string driver_problem = {};    // why the driver does not start; empty: it does, or there is none
  std::vector<GpuModel> models = {};  // of the GPUs, as far as known
  bool pretended = false;             // the GPUs are none
  std::string fewer_threads = {};     // what makes OpenMP start fewer threads than asked for, "OMP_DYNAMIC=true"
  int64_t most_threads = 0;           // so many at most; 0: however many
};

Machine this_machine();

// Throws UserError if a batch has fewer samples or shards than there are workers; `named` is what the text calls those.
void require_a_part_for_each(const TrainerConfig& trainer, int64_t workers, const std::string& named);

// Throws UserError for more workers than GPUs, for a GPU if there is none or it or its driver is too old, for fewer
// samples or shards in a batch than workers, for shards and fewer threads than asked for, and for trainer settings that
// the device does not support.
LaunchChoice choose_launch(const LaunchConfig& config, const TrainerConfig& trainer, const Machine& machine);

// Does the same for a node's place among others: flags may give its workers, or an engine may have started each rank
// itself, and shows it one of the node's GPUs or cores of its own. Throws UserError, too, if there would be too few
// samples or shards for the workers of as many nodes like this one as may come.
LaunchChoice choose_node_launch(const Experiment& experiment, const Placement& placement,
                                const Environment& environment, Machine machine);

// Returns the setting for which an experiment needs a GPU, "trainer.precision=fp16"; empty if it trains without one.
std::string need_of_gpu(const LaunchConfig& config, const TrainerConfig& trainer);

// Returns a warning if so many workers have few samples each; else an empty text.
std::string small_parts_warning(const TrainerConfig& trainer, int64_t world_size);

// If the workers use GPUs, builds the GPU backend where this clone has not done so yet (base/on_demand.h), and lets the
// fork server load it.
void require_backend(const LaunchChoice& launch);

// Returns how to start this node's workers, if they are all of the run.
LaunchPlan node_plan(const LaunchChoice& launch);

}  // namespace ddprun
