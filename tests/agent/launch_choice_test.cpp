// SPDX-License-Identifier: MIT
#include "agent/launch_choice.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const LaunchConfig& config, const TrainerConfig& trainer, const Machine& machine) {
  try {
    choose_launch(config, trainer, machine);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(LaunchChoice, AutoIsAWorkerForEachGpu) {
  const auto choice = choose_launch({}, {.global_batch = 64}, {.gpus = 4, .cores = 16});
  EXPECT_EQ(choice.device, Device::kGpu);
  EXPECT_EQ(choice.workers, 4);
  EXPECT_EQ(choice.threads, 4);
}

TEST(LaunchChoice, AutoIsOneWorkerWithAllCoresWhereThereIsNoGpu) {
  const auto choice = choose_launch({}, {.global_batch = 64}, {.gpus = 0, .cores = 6});
  EXPECT_EQ(choice.device, Device::kCpu);
  EXPECT_EQ(choice.workers, 1);
  EXPECT_EQ(choice.threads, 6);
}

TEST(LaunchChoice, WorkersOnTheCpuShareTheCores) {
  EXPECT_EQ(
      choose_launch({.workers = 3, .device = Device::kCpu}, {.global_batch = 64}, {.gpus = 1, .cores = 8}).threads, 2);
  EXPECT_EQ(choose_launch({.workers = 8}, {.global_batch = 64}, {.gpus = 0, .cores = 2}).threads, 1);
  EXPECT_EQ(choose_launch({.workers = 2, .threads = 5}, {.global_batch = 64}, {.gpus = 0, .cores = 2}).threads, 5);
}

TEST(LaunchChoice, WorkersAreBoundToTheCoresNextToTheirGpusAndShareThose) {
  const std::vector<int> one{0, 1, 2, 3}, other{4, 5, 6, 7, 8, 9};
  const std::vector<std::vector<int>> cores{one, one, other, {}};
  Machine machine{.gpus = 4, .cores = 12};
  for (const auto& next_to : cores) machine.models.push_back({.cores = next_to});
  const TrainerConfig trainer{.global_batch = 64};
  EXPECT_EQ(choose_launch({}, trainer, machine).cores, cores);
  EXPECT_EQ(choose_launch({}, trainer, machine).threads, 2) << "the first two share four cores";
  EXPECT_EQ(choose_launch({.workers = 1}, trainer, machine).threads, 4);
  EXPECT_EQ(choose_launch({.workers = 1, .threads = 9}, trainer, machine).threads, 9);
  const auto unbound = choose_launch({.workers = 1, .bind = Bind::kOff}, trainer, machine);
  EXPECT_TRUE(unbound.cores.empty());
  EXPECT_EQ(unbound.threads, 12);
  EXPECT_TRUE(choose_launch({.device = Device::kCpu}, trainer, machine).cores.empty());
  const TrainerConfig one_process{.global_batch = 64, .strategy = Strategy::kDp};
  EXPECT_TRUE(choose_launch({}, one_process, machine).cores.empty()) << "it drives all GPUs";
}

TEST(LaunchChoice, ShardsUseTheCoresWithWorkersOfOneThread) {
  const TrainerConfig shards{.global_batch = 64, .shards = 8};
  for (const auto& [cores, workers] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {6, 6}, {64, 8}}) {
    const auto choice = choose_launch({}, shards, {.gpus = 0, .cores = cores});
    EXPECT_EQ(choice.workers, workers);
    EXPECT_EQ(choice.threads, 1);
  }
  EXPECT_EQ(choose_launch({.workers = 2, .threads = 3}, shards, {.gpus = 0, .cores = 8}).threads, 3);
  EXPECT_EQ(choose_launch({}, shards, {.gpus = 4, .cores = 64}).workers, 4);
}

TEST(LaunchChoice, SmallShardsAreToldHoweverFewWorkersThereAre) {
  EXPECT_THAT(small_parts_warning({.global_batch = 64, .shards = 16}, 1),
              HasSubstr("trainer.shards: each of the 16 shards has only 4 of 64 samples"));
  EXPECT_EQ(small_parts_warning({.global_batch = 64, .shards = 8}, 8), "");
}

TEST(LaunchChoice, MoreWorkersThanShardsIsRefusedWithBothNumbers) {
  const TrainerConfig shards{.global_batch = 64, .shards = 4};
  EXPECT_THAT(refusal({.workers = 5}, shards, {.gpus = 0, .cores = 8}),
              HasSubstr("trainer.shards: 4 shards for 5 workers: each needs one"));
  EXPECT_THAT(refusal({}, shards, {.gpus = 8, .cores = 8}), HasSubstr("trainer.shards: 4 shards for 8 workers"));
}

TEST(LaunchChoice, FewerThreadsThanAskedForAreRefusedWithShards) {
  const TrainerConfig shards{.global_batch = 64, .shards = 4};
  const Machine limited{.gpus = 0, .cores = 8, .fewer_threads = "OMP_THREAD_LIMIT=2", .most_threads = 2};
  EXPECT_THAT(refusal({.threads = 3}, shards, limited),
              AllOf(HasSubstr("launch.threads: 3 for each worker, but OMP_THREAD_LIMIT=2"),
                    HasSubstr("or use launch.threads=2")));
  EXPECT_EQ(refusal({.threads = 2}, shards, limited), "");
  EXPECT_EQ(refusal({.threads = 3}, {.global_batch = 64}, limited), "");
}

TEST(LaunchChoice, MoreWorkersThanGpusIsRefusedWithBothNumbers) {
  EXPECT_THAT(refusal({.workers = 3}, {.global_batch = 64}, {.gpus = 2, .cores = 8}),
              HasSubstr("launch.workers: 3 workers for 2 GPUs"));
  EXPECT_EQ(refusal({.workers = 3, .device = Device::kCpu}, {.global_batch = 64}, {.gpus = 2, .cores = 8}), "");
}

TEST(LaunchChoice, WorkersShareGpusWithGlooOnly) {
  const LaunchConfig several{.workers = 3, .backend = Backend::kGloo};
  const auto choice = choose_launch(several, {.global_batch = 64}, {.gpus = 2, .cores = 8});
  EXPECT_EQ(choice.shared, 2);
  EXPECT_EQ(node_plan(choice).shared_gpus, 2);
  EXPECT_EQ(choose_launch(several, {.global_batch = 64}, {.gpus = 4, .cores = 8}).shared, 0);
  EXPECT_THAT(refusal({.workers = 3, .backend = Backend::kNccl}, {.global_batch = 64}, {.gpus = 2, .cores = 8}),
              HasSubstr("launch.backend=gloo"));
}

TEST(LaunchChoice, NcclWithoutGpusIsRefused) {
  EXPECT_THAT(refusal({.backend = Backend::kNccl}, {.global_batch = 64}, {.gpus = 0, .cores = 8}),
              HasSubstr("launch.backend: nccl connects GPUs"));
}

TEST(LaunchChoice, AGpuThatIsNotThereIsRefused) {
  EXPECT_THAT(refusal({.device = Device::kGpu}, {.global_batch = 64}, {.gpus = 0, .cores = 8}),
              HasSubstr("no GPU is found"));
}

TEST(LaunchChoice, ADriverThatIsTooOldIsRefusedWithBothVersions) {
  const Machine old{.gpus = 2, .cores = 8, .driver_cuda = 12040};
  EXPECT_THAT(refusal({}, {.global_batch = 64}, old),
              AllOf(HasSubstr("CUDA 12.4"), HasSubstr("CUDA 13.0"), HasSubstr("driver 580")));
  EXPECT_EQ(refusal({.device = Device::kCpu}, {.global_batch = 64}, old), "");
  EXPECT_EQ(refusal({}, {.global_batch = 64}, {.gpus = 2, .cores = 8, .driver_cuda = 13020}), "");
}

TEST(LaunchChoice, AGpuThatIsTooOldIsRefusedByNameWhereItIsUsed) {
  const Machine mixed{.gpus = 2, .cores = 8, .models = {{"NVIDIA RTX 4090", 89}, {"Tesla V100", 70}}};
  EXPECT_THAT(refusal({}, {.global_batch = 64}, mixed),
              AllOf(HasSubstr("GPU 1 (Tesla V100) has compute capability 7.0"), HasSubstr("7.5 and newer")));
  EXPECT_THAT(refusal({}, {.global_batch = 64, .strategy = Strategy::kDp}, mixed), HasSubstr("Tesla V100"));
  EXPECT_EQ(refusal({.workers = 1}, {.global_batch = 64}, mixed), "");
}

TEST(LaunchChoice, ADriverThatDoesNotStartIsToldWithItsReason) {
  const Machine broken{.gpus = 0, .cores = 8, .driver_problem = "system not yet initialized"};
  EXPECT_THAT(refusal({.device = Device::kGpu}, {.global_batch = 64}, broken), HasSubstr("system not yet initialized"));
  EXPECT_THAT(choose_launch({}, {.global_batch = 64}, broken).warning, HasSubstr("system not yet initialized"));
  EXPECT_EQ(choose_launch({.device = Device::kCpu}, {.global_batch = 64}, broken).warning, "");
}

TEST(LaunchChoice, GpusThatAreNoneAreToldAsSuchWhereTheyAreUsed) {
  const Machine machine{.gpus = 2, .cores = 8, .pretended = true};
  EXPECT_THAT(choose_launch({}, {.global_batch = 64}, machine).warning, HasSubstr("GPUs of this run are pretended"));
  EXPECT_EQ(choose_launch({.device = Device::kCpu}, {.global_batch = 64}, machine).warning, "");
}

TEST(LaunchChoice, ABatchSmallerThanTheWorkersIsRefused) {
  EXPECT_THAT(refusal({.workers = 4}, {.global_batch = 3}, {.gpus = 0, .cores = 8}),
              HasSubstr("trainer.global_batch: 3 samples for 4"));
  EXPECT_EQ(refusal({.workers = 4}, {.global_batch = 4}, {.gpus = 0, .cores = 8}), "");
}

TEST(LaunchChoice, DpIsOneProcessWithAllGpus) {
  const TrainerConfig dp{.strategy = Strategy::kDp};
  for (const int64_t workers : {0, 1}) {
    const auto choice = choose_launch({.workers = workers}, dp, {.gpus = 4, .cores = 16});
    EXPECT_EQ(choice.device, Device::kGpu);
    EXPECT_EQ(choice.workers, 1);
    EXPECT_EQ(choice.gpus, 4);
    EXPECT_EQ(choice.threads, 16);
  }
  EXPECT_EQ(choose_launch({}, {}, {.gpus = 4, .cores = 16}).gpus, 1);
  EXPECT_EQ(choose_launch({.device = Device::kCpu}, {}, {.gpus = 4, .cores = 16}).gpus, 0);
}

TEST(LaunchChoice, WorkersTellHowManyGpusAreTheirs) {
  EXPECT_EQ(node_plan({.workers = 1, .device = Device::kGpu, .gpus = 4}).place.gpus, 4);
}

TEST(LaunchChoice, DpWithoutAGpuOrWithSeveralWorkersIsRefusedWithWhatToDo) {
  const TrainerConfig dp{.strategy = Strategy::kDp};
  const auto none = refusal({}, dp, {.gpus = 0, .cores = 8});
  EXPECT_THAT(none, HasSubstr("trainer.strategy: dp"));
  EXPECT_THAT(none, HasSubstr("no GPU is found here. Use trainer.strategy=ddp"));
  EXPECT_EQ(refusal({.device = Device::kGpu}, dp, {.gpus = 0, .cores = 8}), none);
  EXPECT_THAT(refusal({.device = Device::kCpu}, dp, {.gpus = 2, .cores = 8}),
              HasSubstr("on the CPU (launch.device=cpu)"));
  const auto several = refusal({.workers = 2}, dp, {.gpus = 2, .cores = 8});
  EXPECT_THAT(several, HasSubstr("launch.workers: 2 workers, but trainer.strategy dp is one process"));
  EXPECT_THAT(several, HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST(LaunchChoice, WhatOnlyAGpuCanIsRefusedOnTheCpuWithWhatWorksThere) {
  EXPECT_THAT(refusal({}, {.precision = PrecisionMode::kFp16}, {.gpus = 0, .cores = 8}), HasSubstr("bf16 works here"));
  EXPECT_THAT(refusal({.device = Device::kCpu}, {.precision = PrecisionMode::kTf32}, {.gpus = 1, .cores = 8}),
              HasSubstr("use fp32 or bf16"));
  EXPECT_THAT(refusal({}, {.cuda_graph = CudaGraphMode::kOn}, {.gpus = 0, .cores = 8}),
              HasSubstr("cuda_graph: on needs a GPU"));
  EXPECT_EQ(refusal({}, {.precision = PrecisionMode::kBf16}, {.gpus = 0, .cores = 8}), "");
  EXPECT_EQ(refusal({}, {.precision = PrecisionMode::kFp16}, {.gpus = 1, .cores = 8}), "");
}

TEST(LaunchChoice, TellsForWhatAnExperimentNeedsAGpu) {
  EXPECT_EQ(need_of_gpu({}, {}), "");
  EXPECT_EQ(need_of_gpu({}, {.precision = PrecisionMode::kFp16}), "trainer.precision=fp16");
  EXPECT_EQ(need_of_gpu({.device = Device::kCpu}, {.precision = PrecisionMode::kFp16}), "")
      << "it is refused as a mistake";
  EXPECT_EQ(need_of_gpu({.device = Device::kGpu}, {}), "launch.device=cuda");
  EXPECT_EQ(need_of_gpu({.backend = Backend::kNccl}, {}), "launch.backend=nccl");
  EXPECT_EQ(need_of_gpu({}, {.strategy = Strategy::kDp}), "trainer.strategy=dp");
  EXPECT_EQ(need_of_gpu({}, {.cuda_graph = CudaGraphMode::kOn}), "trainer.cuda_graph=on");
}

TEST(LaunchChoice, WarnsOfBf16WhereTheProcessorHasNoKernelsForIt) {
  const Machine old{.gpus = 0, .cores = 8, .bf16 = false};
  for (const std::string precision : {"bf16", "bf16_pure", "bf16_master"}) {
    const TrainerConfig trainer{.precision = enum_of<PrecisionMode>(precision).value()};
    EXPECT_THAT(choose_launch({}, trainer, old).warning, HasSubstr("trainer.precision: " + precision + " can take"));
    EXPECT_EQ(choose_launch({}, trainer, {.gpus = 1, .cores = 8, .bf16 = false}).warning, "");
    EXPECT_EQ(choose_launch({}, trainer, {.gpus = 0, .cores = 8, .bf16 = true}).warning, "");
  }
  EXPECT_EQ(choose_launch({}, {.precision = PrecisionMode::kFp32}, old).warning, "");
}

}  // namespace
}  // namespace ddprun
