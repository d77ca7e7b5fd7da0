// SPDX-License-Identifier: MIT
#include "cli/launch_choice.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

std::string refusal(const LaunchConfig& config, int64_t global_batch, const Machine& machine) {
  try {
    choose_launch(config, global_batch, machine);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(LaunchChoice, AutoIsAWorkerForEachGpu) {
  const auto choice = choose_launch({}, 64, {.gpus = 4, .cores = 16});
  EXPECT_EQ(choice.device, "cuda");
  EXPECT_EQ(choice.workers, 4);
  EXPECT_EQ(choice.threads, 4);
}

TEST(LaunchChoice, AutoIsOneWorkerWithAllCoresWhereThereIsNoGpu) {
  const auto choice = choose_launch({}, 64, {.gpus = 0, .cores = 6});
  EXPECT_EQ(choice.device, "cpu");
  EXPECT_EQ(choice.workers, 1);
  EXPECT_EQ(choice.threads, 6);
}

TEST(LaunchChoice, WorkersOnTheCpuShareTheCores) {
  EXPECT_EQ(choose_launch({.workers = 3, .device = "cpu"}, 64, {.gpus = 1, .cores = 8}).threads, 2);
  EXPECT_EQ(choose_launch({.workers = 8}, 64, {.gpus = 0, .cores = 2}).threads, 1);
  EXPECT_EQ(choose_launch({.workers = 2, .threads = 5}, 64, {.gpus = 0, .cores = 2}).threads, 5);
}

TEST(LaunchChoice, MoreWorkersThanGpusIsRefusedWithBothNumbers) {
  EXPECT_THAT(refusal({.workers = 3}, 64, {.gpus = 2, .cores = 8}), HasSubstr("launch.workers: 3 workers for 2 GPUs"));
  EXPECT_EQ(refusal({.workers = 3, .device = "cpu"}, 64, {.gpus = 2, .cores = 8}), "");
}

TEST(LaunchChoice, AGpuThatIsNotThereIsRefused) {
  EXPECT_THAT(refusal({.device = "cuda"}, 64, {.gpus = 0, .cores = 8}), HasSubstr("no GPU is found"));
}

TEST(LaunchChoice, ABatchSmallerThanTheWorkersIsRefused) {
  EXPECT_THAT(refusal({.workers = 4}, 3, {.gpus = 0, .cores = 8}), HasSubstr("trainer.global_batch: 3 samples for 4"));
  EXPECT_EQ(refusal({.workers = 4}, 4, {.gpus = 0, .cores = 8}), "");
}

}  // namespace
}  // namespace ddprun
