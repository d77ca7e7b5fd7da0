// SPDX-License-Identifier: MIT
#include "agent/launch_choice.h"

#include "support/error_of.h"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

struct Wish {
  LaunchConfig config = {};
  TrainerConfig trainer = {};
  Machine machine = {};
};

std::string refusal(const Wish& wish) {
  return error_of([&] { choose_launch(wish.config, wish.trainer, wish.machine); });
}

LaunchChoice choice(const Wish& wish) { return choose_launch(wish.config, wish.trainer, wish.machine); }

const TrainerConfig kBatch{.global_batch = 64}, kShards{.global_batch = 64, .shards = 4},
    kFp16{.precision = PrecisionMode::kFp16};
const TrainerConfig kDp{.global_batch = 64, .strategy = Strategy::kDp}, kBf16{.precision = PrecisionMode::kBf16};
const Machine kNoGpu{.gpus = 0, .cores = 8}, kOneGpu{.gpus = 1, .cores = 8}, kTwoGpus{.gpus = 2, .cores = 8};
const Machine kMixed{.gpus = 2, .cores = 8, .models = {{"NVIDIA RTX 4090", 89}, {"Tesla V100", 70}}};
const Machine kOldDriver{.gpus = 2, .cores = 8, .driver_cuda = 12040};
const Machine kBrokenDriver{.gpus = 0, .cores = 8, .driver_problem = "system not yet initialized"};
const Machine kFewThreads{.gpus = 0, .cores = 8, .fewer_threads = "OMP_THREAD_LIMIT=2", .most_threads = 2};

TEST(LaunchChoice, IsAWorkerForEachGpuOrOneOnTheCpuAndAllCores) {
  struct Row {
    Wish wish;
    Device device;
    int64_t workers, gpus, threads;
  };
  const TrainerConfig eight_shards{.global_batch = 64, .shards = 8};
  const auto cores = [](int64_t count) { return Machine{.gpus = 0, .cores = count}; };
  const auto on_cpu = [](int64_t workers) { return LaunchConfig{.workers = workers, .device = Device::kCpu}; };
  const Machine four_gpus{.gpus = 4, .cores = 16};
  const Row rows[] = {
      {{{}, kBatch, four_gpus}, Device::kGpu, 4, 1, 4},
      {{{}, kBatch, cores(6)}, Device::kCpu, 1, 0, 6},
      {{on_cpu(3), kBatch, kOneGpu}, Device::kCpu, 3, 0, 2},
      {{{.workers = 8}, kBatch, cores(2)}, Device::kCpu, 8, 0, 1},
      {{{.workers = 2, .threads = 5}, kBatch, cores(2)}, Device::kCpu, 2, 0, 5},
      // dp is one process with all GPUs.
      {{{}, kDp, four_gpus}, Device::kGpu, 1, 4, 16},
      {{{.workers = 1}, kDp, four_gpus}, Device::kGpu, 1, 4, 16},
      // Shards use the cores with workers of one thread.
      {{{}, eight_shards, cores(1)}, Device::kCpu, 1, 0, 1},
      {{{}, eight_shards, cores(6)}, Device::kCpu, 6, 0, 1},
      {{{}, eight_shards, cores(64)}, Device::kCpu, 8, 0, 1},
      {{{.workers = 2, .threads = 3}, eight_shards, cores(8)}, Device::kCpu, 2, 0, 3},
      {{{}, eight_shards, {.gpus = 4, .cores = 64}}, Device::kGpu, 4, 1, 1},
  };
  for (const auto& row : rows) {
    const auto chosen = choice(row.wish);
    EXPECT_EQ(std::tuple(chosen.device, chosen.workers, chosen.gpus, chosen.threads),
              std::tuple(row.device, row.workers, row.gpus, row.threads))
        << "row " << &row - rows;
  }
  EXPECT_EQ(node_plan({.workers = 1, .device = Device::kGpu, .gpus = 4}).place.gpus, 4);
}

TEST(LaunchChoice, WorkersAreBoundToTheCoresNextToTheirGpusAndShareThose) {
  const std::vector<int> one{0, 1, 2, 3}, other{4, 5, 6, 7, 8, 9};
  const std::vector<std::vector<int>> cores{one, one, other, {}};
  Machine machine{.gpus = 4, .cores = 12};
  for (const auto& next_to : cores) machine.models.push_back({.cores = next_to});
  EXPECT_EQ(choice({{}, kBatch, machine}).cores, cores);
  EXPECT_EQ(choice({{}, kBatch, machine}).threads, 2) << "the first two share four cores";
  EXPECT_EQ(choice({{.workers = 1}, kBatch, machine}).threads, 4);
  EXPECT_EQ(choice({{.workers = 1, .threads = 9}, kBatch, machine}).threads, 9);
  const auto unbound = choice({{.workers = 1, .bind = Bind::kOff}, kBatch, machine});
  EXPECT_TRUE(unbound.cores.empty());
  EXPECT_EQ(unbound.threads, 12);
  EXPECT_TRUE(choice({{.device = Device::kCpu}, kBatch, machine}).cores.empty());
  EXPECT_TRUE(choice({{}, kDp, machine}).cores.empty()) << "it drives all GPUs";
}

TEST(LaunchChoice, WorkersShareGpusWithGlooOnly) {
  const LaunchConfig several{.workers = 3, .backend = Backend::kGloo};
  const auto sharing = choice({several, kBatch, kTwoGpus});
  EXPECT_EQ(sharing.shared, 2);
  EXPECT_EQ(node_plan(sharing).shared_gpus, 2);
  EXPECT_EQ(choice({several, kBatch, {.gpus = 4, .cores = 8}}).shared, 0);
}

TEST(LaunchChoice, IsRefusedWithWhatIsThereAndWhatToDo) {
  const LaunchConfig on_cpu{.device = Device::kCpu}, on_gpu{.device = Device::kGpu};
  const auto no_gpu_for_dp = "trainer.strategy: dp ... no GPU is found here. Use trainer.strategy=ddp";
  const Refusals<Wish> rows{
      {{{.workers = 5}, kShards, kNoGpu}, "trainer.shards: 4 shards for 5 workers: each needs one"},
      {{{}, kShards, {.gpus = 8, .cores = 8}}, "trainer.shards: 4 shards for 8 workers"},
      {{{.threads = 3}, kShards, kFewThreads},
       "launch.threads: 3 for each worker, but OMP_THREAD_LIMIT=2 ... or use launch.threads=2"},
      {{{.threads = 2}, kShards, kFewThreads}, ""},
      {{{.threads = 3}, kBatch, kFewThreads}, ""},
      {{{.workers = 4}, {.global_batch = 3}, kNoGpu}, "trainer.global_batch: 3 samples for 4"},
      {{{.workers = 4}, {.global_batch = 4}, kNoGpu}, ""},
      {{{.workers = 3}, kBatch, kTwoGpus}, "launch.workers: 3 workers for 2 GPUs"},
      {{{.workers = 3, .device = Device::kCpu}, kBatch, kTwoGpus}, ""},
      {{{.workers = 3, .backend = Backend::kNccl}, kBatch, kTwoGpus}, "launch.backend=gloo"},
      {{{.backend = Backend::kNccl}, kBatch, kNoGpu}, "launch.backend: nccl connects GPUs"},
      {{on_gpu, kBatch, kNoGpu}, "no GPU is found"},
      {{on_gpu, kBatch, kBrokenDriver}, "system not yet initialized"},
      {{{}, kBatch, kOldDriver}, "CUDA 12.4 ... CUDA 13.0 ... driver 580"},
      {{on_cpu, kBatch, kOldDriver}, ""},
      {{{}, kBatch, {.gpus = 2, .cores = 8, .driver_cuda = 13020}}, ""},
      {{{}, kBatch, kMixed}, "GPU 1 (Tesla V100) has compute capability 7.0 ... 7.5 and newer"},
      {{{}, kDp, kMixed}, "Tesla V100"},
      {{{.workers = 1}, kBatch, kMixed}, ""},
      {{{}, kDp, kNoGpu}, no_gpu_for_dp},
      {{on_gpu, kDp, kNoGpu}, no_gpu_for_dp},
      {{on_cpu, kDp, kTwoGpus}, "on the CPU (launch.device=cpu)"},
      {{{.workers = 2}, kDp, kTwoGpus},
       "launch.workers: 2 workers, but trainer.strategy dp is one process ... CUDA_VISIBLE_DEVICES"},
      // What only a GPU can, with what works on the CPU.
      {{{}, kFp16, kNoGpu}, "bf16 works here"},
      {{on_cpu, {.precision = PrecisionMode::kTf32}, kOneGpu}, "use fp32 or bf16"},
      {{{}, {.cuda_graph = CudaGraphMode::kOn}, kNoGpu}, "cuda_graph: on needs a GPU"},
      {{{}, kBf16, kNoGpu}, ""},
      {{{}, kFp16, kOneGpu}, ""},
  };
  expect_refused(refusal, rows);
}

TEST(LaunchChoice, WarnsOfWhatIsSlowOrNoneWhereItIsUsed) {
  const LaunchConfig on_cpu{.device = Device::kCpu};
  const Machine pretended{.gpus = 2, .cores = 8, .pretended = true}, without_bf16{.gpus = 0, .cores = 8, .bf16 = false};
  const auto warning = [](const Wish& wish) { return choice(wish).warning; };
  Refusals<Wish> rows{
      {{{}, kBatch, kBrokenDriver}, "system not yet initialized"},   {{on_cpu, kBatch, kBrokenDriver}, ""},
      {{{}, kBatch, pretended}, "GPUs of this run are pretended"},   {{on_cpu, kBatch, pretended}, ""},
      {{{}, {.precision = PrecisionMode::kFp32}, without_bf16}, ""},
  };
  for (const std::string precision : {"bf16", "bf16_pure", "bf16_master"}) {
    const TrainerConfig trainer{.precision = enum_of<PrecisionMode>(precision).value()};
    rows.push_back({{{}, trainer, without_bf16}, "trainer.precision: " + precision + " can take"});
    rows.push_back({{{}, trainer, {.gpus = 1, .cores = 8, .bf16 = false}}, ""});
    rows.push_back({{{}, trainer, kNoGpu}, ""});
  }
  expect_refused<Wish>(warning, rows);
  EXPECT_THAT(small_parts_warning({.global_batch = 64, .shards = 16}, 1),
              HasSubstr("trainer.shards: each of the 16 shards has only 4 of 64 samples"));
  EXPECT_EQ(small_parts_warning({.global_batch = 64, .shards = 8}, 8), "");
}

TEST(LaunchChoice, SaysForWhatAnExperimentNeedsAGpu) {
  EXPECT_EQ(need_of_gpu({}, {}), "");
  EXPECT_EQ(need_of_gpu({}, kFp16), "trainer.precision=fp16");
  EXPECT_EQ(need_of_gpu({.device = Device::kCpu}, kFp16), "") << "it is refused as a mistake";
  EXPECT_EQ(need_of_gpu({.device = Device::kGpu}, {}), "launch.device=cuda");
  EXPECT_EQ(need_of_gpu({.backend = Backend::kNccl}, {}), "launch.backend=nccl");
  EXPECT_EQ(need_of_gpu({}, kDp), "trainer.strategy=dp");
  EXPECT_EQ(need_of_gpu({}, {.cuda_graph = CudaGraphMode::kOn}), "trainer.cuda_graph=on");
}

}  // namespace
}  // namespace ddprun
