// SPDX-License-Identifier: MIT
#include "agent/launch_choice.h"

#include "base/log.h"
#include "base/on_demand.h"
#include "base/openmp_threads.h"
#include "base/program.h"
#include "launch/machine.h"

#include <ddprun/error.h>

#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace ddprun {
namespace {

std::string cuda_text(int version) { return log::text(version / 1000, ".", version % 1000 / 10); }

std::string capability_text(int capability) { return log::text(capability / 10, ".", capability % 10); }

void check_driver(const Machine& machine) {
  if (machine.gpus == 0) {
    const auto why = machine.driver_problem.empty() ? "" : "; their driver does not start: " + machine.driver_problem;
    throw UserError("launch.device: cuda, but no GPU is found here" + why +
                    "; use launch.device=cpu to train without one");
  }
  if (machine.driver_cuda / 1000 < kCuda.version / 1000) {
    throw UserError(log::text("launch.device: the GPUs' driver runs CUDA ", cuda_text(machine.driver_cuda),
                              " at most, and this LibTorch is made for CUDA ", cuda_text(kCuda.version),
                              ": install driver ", kCuda.driver, " or newer, or train with launch.device=cpu"));
  }
}

// Checks the GPUs that are used; the others may be as old as they like.
void check_models(const Machine& machine, int64_t used) {
  for (size_t gpu = 0; gpu < machine.models.size() && gpu < static_cast<size_t>(used); ++gpu) {
    const auto& [name, capability, cores] = machine.models[gpu];
    if (capability == 0 || capability >= kCuda.capability) continue;
    throw UserError(log::text("launch.device: GPU ", gpu, " (", name, ") has compute capability ",
                              capability_text(capability), ", and this LibTorch is compiled for ",
                              capability_text(kCuda.capability),
                              " and newer. Choose others with CUDA_VISIBLE_DEVICES, or train with launch.device=cpu"));
  }
}

void check_device(const LaunchConfig& config, const TrainerConfig& trainer, bool on_gpu) {
  if (on_gpu) return;
  if (config.backend == Backend::kNccl)
    throw UserError("launch.backend: nccl connects GPUs, and this run is on the CPU; leave it at auto");
  if (trainer.cuda_graph == CudaGraphMode::kOn)
    throw UserError("trainer.cuda_graph: on needs a GPU, and this run is on the CPU; set it to auto");
  if (trainer.precision == PrecisionMode::kFp16)
    throw UserError(
        "trainer.precision: fp16 needs a GPU, and this run is on the CPU; bf16 works here, and needs no scaler");
  if (trainer.precision == PrecisionMode::kTf32)
    throw UserError("trainer.precision: tf32 is a mode of GPUs, and this run is on the CPU; use fp32 or bf16");
}

// Checks that trainer.strategy dp, one process that uses all GPUs it sees, is possible.
void check_data_parallel(const LaunchConfig& config, const Machine& machine) {
  const bool on_cpu = config.device == Device::kCpu;
  if (on_cpu || machine.gpus == 0) {
    throw UserError(log::text("trainer.strategy: dp spreads each batch over the GPUs of one process, and ",
                              on_cpu ? "this run is on the CPU (launch.device=cpu)" : "no GPU is found here",
                              ". Use trainer.strategy=ddp, with as many launch.workers as you like"));
  }
  if (config.workers > 1) {
    throw UserError(log::text("launch.workers: ", config.workers,
                              " workers, but trainer.strategy dp is one process for ",
                              "all GPUs. Use launch.workers=auto (CUDA_VISIBLE_DEVICES chooses the GPUs), or "
                              "trainer.strategy=ddp"));
  }
}

// NCCL refuses two ranks on one GPU.
int64_t shared_gpus(const LaunchConfig& config, int64_t workers, const Machine& machine) {
  if (config.backend == Backend::kGloo) return machine.gpus;
  throw UserError(log::text("launch.workers: ", workers, " workers for ", machine.gpus,
                            " GPUs; each worker takes one. Use launch.workers=", machine.gpus,
                            " or fewer, launch.device=cpu, or launch.backend=gloo, with which workers share GPUs"));
}

// Returns the number that auto means. With shards, whose bits depend on the threads of a worker and not on the number
// of workers, a CPU's cores are used by workers of one thread.
int64_t workers_of(const TrainerConfig& trainer, const Machine& machine, bool on_gpu) {
  if (on_gpu) return trainer.strategy == Strategy::kDp ? 1 : machine.gpus;
  return trainer.shards > 0 ? std::min(trainer.shards, machine.cores) : 1;
}

// Returns the cores that each worker has to itself: its share of the machine's, and of those that it is bound to with
// the other workers of GPUs next to them.
int64_t cores_of_a_worker(const LaunchChoice& choice, int64_t cores) {
  auto least = std::max<int64_t>(1, cores / choice.workers);
  const auto bound = std::min<int64_t>(choice.workers, std::ssize(choice.cores));
  for (int64_t gpu = 0; gpu < bound; ++gpu) {
    const auto& own = choice.cores[gpu];
    const auto sharing = std::count(choice.cores.begin(), choice.cores.begin() + bound, own);
    if (!own.empty()) least = std::min(least, std::max<int64_t>(1, std::ssize(own) / sharing));
  }
  return least;
}

// Sets what the environment has for OpenMP that may give a worker fewer threads than it asks for.
void read_thread_limits(Machine& machine) {
  const auto* limit = std::getenv("OMP_THREAD_LIMIT");
  const auto* dynamic = std::getenv("OMP_DYNAMIC");
  if (limit && std::atoll(limit) > 0) {
    machine.fewer_threads = std::string("OMP_THREAD_LIMIT=") + limit;
    machine.most_threads = std::atoll(limit);
  }
  if (dynamic && (dynamic[0] | 0x20) == 't') {
    machine.fewer_threads = std::string("OMP_DYNAMIC=") + dynamic;
    machine.most_threads = 1;
  }
}

// Checks that the workers get the threads on which the bits of shards depend.
void check_threads(const TrainerConfig& trainer, int64_t threads, const Machine& machine) {
  const bool fit = machine.most_threads == 0 || threads <= machine.most_threads;
  if (trainer.shards == 0 || fit) return;
  throw UserError(
      log::text("launch.threads: ", threads, " for each worker, but ", machine.fewer_threads,
                " may give it fewer, and the bits of trainer.shards depend on their number; unset it, or use "
                "launch.threads=",
                machine.most_threads));
}

constexpr auto kPretended =
    "the GPUs of this run are pretended (LD_PRELOAD, tests/pretend_gpu): it computes on the CPU, and its speeds and "
    "memory "
    "mean nothing";

#if defined(__x86_64__)
constexpr auto kBf16Instructions = "AVX-512";
bool computes_bf16() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#elif defined(__aarch64__)
constexpr auto kBf16Instructions = "instructions for bf16";
bool computes_bf16() {
  constexpr auto kBf16 = 1UL << 14;  // HWCAP2_BF16 of Linux' asm/hwcap.h; a Neoverse N1 has none
  return (::getauxval(AT_HWCAP2) & kBf16) != 0;
}
#endif

std::string slowness(const LaunchConfig& config, const TrainerConfig& trainer, const Machine& machine, bool on_gpu) {
  if (!on_gpu && config.device == Device::kAuto && !machine.driver_problem.empty())
    return "launch.device: the GPUs' driver does not start, so this run is on the CPU: " + machine.driver_problem;
  const bool computes_in_bf16 = trainer.precision == PrecisionMode::kBf16 || has_bf16_weights(trainer.precision);
  if (on_gpu || machine.bf16 || !computes_in_bf16) return "";
  return "trainer.precision: " + std::string(word_of(trainer.precision)) +
         " can take ten times as long as fp32 on this processor, which has no " + kBf16Instructions +
         "; use fp32 where speed matters";
}

Variables thread_variables(const LaunchChoice& launch) {
  Variables variables{{kThreadsVariable, std::to_string(launch.threads)}};
  if (!user_sets_spin()) variables.emplace_back(kSpinVariable, kShortSpin);
  return variables;
}

}  // namespace

Machine this_machine() {
  auto driver = find_gpu_driver();
  Machine machine{.gpus = static_cast<int64_t>(driver.gpus.size()),
                  .cores = usable_cores(),
                  .bf16 = computes_bf16(),
                  .driver_cuda = driver.cuda,
                  .driver_problem = std::move(driver.problem),
                  .models = std::move(driver.gpus),
                  .pretended = gpus_are_pretended()};
  read_thread_limits(machine);
  return machine;
}

void require_a_part_for_each(const TrainerConfig& trainer, int64_t workers, const std::string& named) {
  if (trainer.shards > 0 && trainer.shards < workers)
    throw UserError("trainer.shards: " + std::to_string(trainer.shards) + " shards for " + named +
                    ": each needs one. Use fewer launch.workers, or more shards, which are a part of the run");
  if (trainer.has_a_sample_for_each(workers)) return;
  throw UserError("trainer.global_batch: " + std::to_string(trainer.global_batch) + " samples for " + named +
                  "; it is the batch of all workers together, so it must be at least their number");
}

LaunchChoice choose_launch(const LaunchConfig& config, const TrainerConfig& trainer, const Machine& machine) {
  const bool data_parallel = trainer.strategy == Strategy::kDp;
  if (data_parallel) check_data_parallel(config, machine);
  LaunchChoice choice{.device = config.device};
  if (choice.device == Device::kAuto) choice.device = machine.gpus > 0 ? Device::kGpu : Device::kCpu;
  const bool on_gpu = choice.device == Device::kGpu;
  if (on_gpu) check_driver(machine);
  check_device(config, trainer, on_gpu);
  choice.workers = config.workers > 0 ? config.workers : workers_of(trainer, machine, on_gpu);
  if (on_gpu) choice.gpus = data_parallel ? machine.gpus : 1;
  if (on_gpu) check_models(machine, std::max(choice.workers, choice.gpus));
  if (on_gpu && choice.workers > machine.gpus) choice.shared = shared_gpus(config, choice.workers, machine);
  require_a_part_for_each(trainer, choice.workers, log::text(choice.workers, " workers"));
  if (on_gpu && !data_parallel && config.bind == Bind::kAuto) {
    for (const auto& model : machine.models) choice.cores.push_back(model.cores);
  }
  const auto threads = trainer.shards > 0 ? 1 : cores_of_a_worker(choice, machine.cores);
  choice.threads = config.threads > 0 ? config.threads : threads;
  check_threads(trainer, choice.threads, machine);
  choice.warning = on_gpu && machine.pretended ? kPretended : slowness(config, trainer, machine, on_gpu);
  return choice;
}

namespace {

// Sets this node's workers if the flags give them or an engine has started each rank itself.
LaunchConfig with_placement(LaunchConfig config, const Placement& placement, const Machine& machine) {
  const auto& workers = placement.workers;
  if (placement.role == Role::kRank) {
    config.workers = placement.local_world_size;
  } else if (workers == "auto" || workers == "gpu") {
    config.workers = 0;
    if (workers == "gpu") config.device = Device::kGpu;
  } else if (workers == "cpu") {
    config.workers = machine.cores;
    config.device = Device::kCpu;
  } else if (!workers.empty()) {
    config.workers = std::stol(workers);
  }
  return config;
}

// Returns whether an engine shows each of a node's ranks a different single GPU: srun --gpus-per-task=1.
bool sees_one_of_several(const Placement& placement, const Machine& machine, const Environment& environment) {
  return placement.role == Role::kRank && placement.local_world_size > 1 && machine.gpus == 1 &&
         environment.has("CUDA_VISIBLE_DEVICES");
}

// Returns whether Slurm has bound each of a node's ranks to its own cores: srun --cpus-per-task=8. The cores of all
// ranks would be that many times more.
bool has_cores_of_its_own(const Placement& placement, const Machine& machine, const Environment& environment) {
  const auto setting = environment.find("SLURM_CPUS_PER_TASK");
  if (placement.role != Role::kRank || !setting) return false;
  const auto cores = std::strtol(setting->value.c_str(), nullptr, 10);
  return machine.cores < cores * placement.local_world_size;
}

// Checks that each worker would have a part of the batch if as many nodes like this one came as may: a run must not
// fail when they do. Where all come before it begins, or each has as many workers as GPUs, their number shows then.
void require_parts_for_all_nodes(const TrainerConfig& trainer, int64_t workers, const Placement& placement) {
  const auto all = workers * placement.max_nodes;
  if (placement.role == Role::kRank || placement.min_nodes == placement.max_nodes || all == 0) return;
  require_a_part_for_each(trainer, all,
                          std::to_string(all) + " workers on up to " + std::to_string(placement.max_nodes) + " nodes");
}

}  // namespace

LaunchChoice choose_node_launch(const Experiment& experiment, const Placement& placement,
                                const Environment& environment, Machine machine) {
  const bool sees_one = sees_one_of_several(placement, machine, environment);
  if (sees_one) machine.gpus = placement.local_world_size;
  if (has_cores_of_its_own(placement, machine, environment)) machine.cores *= placement.local_world_size;
  const auto wanted = with_placement(experiment.launch, placement, machine);
  require_parts_for_all_nodes(experiment.trainer, wanted.workers, placement);
  auto choice = choose_launch(wanted, experiment.trainer, machine);
  if (sees_one) choice.gpu = 0;
  return choice;
}

std::string need_of_gpu(const LaunchConfig& config, const TrainerConfig& trainer) {
  if (config.device == Device::kCpu) return "";
  if (config.device == Device::kGpu) return "launch.device=cuda";
  if (config.backend == Backend::kNccl) return "launch.backend=nccl";
  if (trainer.strategy == Strategy::kDp) return "trainer.strategy=dp";
  if (trainer.cuda_graph == CudaGraphMode::kOn) return "trainer.cuda_graph=on";
  if (trainer.precision == PrecisionMode::kFp16 || trainer.precision == PrecisionMode::kTf32)
    return "trainer.precision=" + std::string(word_of(trainer.precision));
  return "";
}

std::string small_parts_warning(const TrainerConfig& trainer, int64_t world_size) {
  constexpr int64_t kSmall = 8;
  const auto batch = trainer.global_batch_of(world_size), part = batch / world_size;
  if (trainer.shards > 0 && batch / trainer.shards < kSmall)
    return log::text("trainer.shards: each of the ", trainer.shards, " shards has only ", batch / trainer.shards,
                     " of ", batch,
                     " samples, too few to keep a worker busy; use fewer, or a larger trainer.global_batch");
  if (world_size == 1 || part >= kSmall) return "";
  return log::text("trainer.global_batch: each of the ", world_size, " workers gets only ", part, " of ", batch,
                   " samples, too few to keep it busy. To set the batch per GPU, use trainer.batch_per_worker");
}

void require_backend(const LaunchChoice& launch) {
  if (launch.device != Device::kGpu) return;
  require_parts({kCudaBackend});
  preload_cuda_backend();
}

LaunchPlan node_plan(const LaunchChoice& launch) {
  const auto workers = static_cast<int>(launch.workers);
  return {.command = {own_program().string(), "worker"},
          .environment = thread_variables(launch),
          .place = {.attempt = {.world_size = workers},
                    .local_world_size = workers,
                    .device = launch.device,
                    .gpus = static_cast<int>(launch.gpus)},
          .workers = workers,
          .shared_gpus = static_cast<int>(launch.shared),
          .cores = launch.cores,
          .device = std::string(word_of(launch.device))};
}

}  // namespace ddprun
