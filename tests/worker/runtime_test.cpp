// SPDX-License-Identifier: MIT
#include "worker/runtime.h"

#include "support/idle_backend.h"
#include "support/toy_run.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace ddprun {
namespace {

struct Grouped {};  // thrown when NCCL's process group would be made: the second rank is not needed

// ProcessGroupNCCL looks at it when it is made, and leaves out algorithms (NVLS) whose sums differ from call to call.
TEST(Runtime, DeterminismIsSetBeforeNcclsGroupIsMade) {
  const testing::TempFolder folder;
  std::ofstream(folder.path() / "config.yaml")
      << "name: test\nmodel: {plugin: mlp}\ndataset: {plugin: digits}\noptimizer: {plugin: sgd}\n"
         "trainer: {deterministic: true}\n";
  bool deterministic = false, filling = true;
  const auto look = [&] {
    deterministic = at::globalContext().deterministicAlgorithms();
    filling = at::globalContext().deterministicFillUninitializedMemory();
    throw Grouped();
  };
  const auto load = [&](int64_t, int64_t) {
    return std::make_shared<testing::IdleBackend>("", testing::IdleBackend::Calls{.grouping = look});
  };
  const WorkerPlace place{.attempt = {.world_size = 2, .run_dir = folder.path()},
                          .device = Device::kGpu,
                          .store = folder.path() / "store",
                          .config = folder.path() / "config.yaml"};
  EXPECT_THROW(Runtime(place, {}, load), Grouped);
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_TRUE(deterministic);
  EXPECT_FALSE(filling) << "each new tensor costs one more write";
}

}  // namespace
}  // namespace ddprun
