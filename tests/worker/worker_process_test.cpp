// SPDX-License-Identifier: MIT
// What becomes of a worker as a process: how it crashes, what it answers its launcher, how it begins, and what it says
// of gradients.
#include "launch/worker_process.h"

#include "base/clock.h"
#include "support/idle_backend.h"
#include "support/temporary_folder.h"
#include "worker/crash_handler.h"
#include "worker/flight_record_writer.h"
#include "worker/runtime.h"
#include "worker/sanity_check.h"

#include <ATen/Context.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>

namespace ddprun {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // a sanitizer has handlers of its own

// Returns what a process has reported in which a thread of this name has ended it.
std::optional<WorkerFailure> report_of_an_abort(const std::filesystem::path& failure, const char* thread_name,
                                                const std::function<void()>& end = std::abort) {
  const pid_t child = ::fork();
  if (child == 0) {
    install_crash_handler("test: ", failure, 3);
    std::thread([&] {
      ::pthread_setname_np(::pthread_self(), thread_name);
      end();
    }).join();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  return read_failure(failure);
}

using CrashHandlerTest = FolderTest;

TEST_F(CrashHandlerTest, WhomNcclsWatchdogEndsHasLostContactToAnotherRank) {
  const double begun = steady_seconds();
  for (const auto* name : {"pt_nccl_watchdg", "pt_nccl_heartbt"}) {
    const auto failure = report_of_an_abort(folder_ / name, name);
    ASSERT_TRUE(failure) << name;
    EXPECT_EQ(failure->rank, 3);
    EXPECT_EQ(failure->kind, FailureKind::kCommunication);
    EXPECT_GE(failure->time, begun);
    EXPECT_LE(failure->time, steady_seconds());
  }
  EXPECT_FALSE(report_of_an_abort(folder_ / "other", "pt_autograd_0"));
}

TEST_F(CrashHandlerTest, WhatNcclsWatchdogThrowsIsTheCause) {
  const auto throws = [] {
    throw std::runtime_error(
        "[Rank 3] Process group watchdog thread terminated with exception: \"peer\" is gone\nframe #0");
  };
  const auto failure = report_of_an_abort(folder_ / "thrown", "pt_nccl_watchdg", throws);
  ASSERT_TRUE(failure);
  EXPECT_TRUE(failure->message.ends_with("an error of NCCL: 'peer' is gone")) << failure->message;
  EXPECT_EQ(failure->kind, FailureKind::kCommunication);
}

TEST_F(CrashHandlerTest, WhatNcclsWatchdogHearsOfTheGpuIsTheRanksOwn) {
  for (const auto* text : {"Process group watchdog thread terminated with exception: CUDA error: unspecified launch "
                           "failure\nframe #0",
                           "CUDA error: unspecified launch failure"}) {
    const auto throws = [text] { throw std::runtime_error(text); };
    const auto failure = report_of_an_abort(folder_ / "thrown", "pt_nccl_watchdg", throws);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->message, "NCCL's watchdog ended the process: CUDA error: unspecified launch failure");
    EXPECT_EQ(failure->kind, FailureKind::kInternal);
  }
}

#endif

class FlightRecordWriterTest : public FolderTest {
 protected:
  // Asks as launchers do, and waits until the record is made.
  void ask(const FlightRecord& record) const {
    std::promise<void> made;
    answer_launcher(folder_ / "probe_answer");
    const FlightRecordWriter writer(folder_, 3, [&] {
      made.set_value();
      return record;
    });
    std::raise(SIGUSR2);
    made.get_future().wait();
  }
};

TEST_F(FlightRecordWriterTest, WritesWhenTheLauncherAsks) {
  ask({.pickled = "all", .under_way = "{}"});
  EXPECT_EQ(read(folder_ / "collectives_rank_3"), "all");
  EXPECT_EQ(read(folder_ / "under_way_rank_3.json"), "{}");
}

TEST_F(FlightRecordWriterTest, NothingForTorchfrtraceMeansNoFile) {
  ask({.under_way = "{}"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "collectives_rank_3"));
}

TEST_F(FlightRecordWriterTest, NobodyAskedNothingWritten) {
  {
    const FlightRecordWriter writer(folder_, 3, [] { return FlightRecord{.pickled = "all"}; });
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

struct Grouped {};  // thrown when NCCL's process group would be made: the second rank is not needed

// ProcessGroupNCCL looks at it when it is made, and leaves out algorithms (NVLS) whose sums differ from call to call.
TEST(Runtime, DeterminismIsSetBeforeNcclsGroupIsMade) {
  const TestFolder folder;
  std::ofstream(folder / "config.yaml")
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
                          .store = folder / "store",
                          .config = folder / "config.yaml"};
  EXPECT_THROW(Runtime(place, {}, load), Grouped);
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_TRUE(deterministic);
  EXPECT_FALSE(filling) << "each new tensor costs one more write";
}

// What finds them is checked with the SDK's kit, in tests/sdk/testing_model_test.cpp.
TEST(GradientReport, SaysWhichParametersAreWrongOrUnused) {
  const check::GradientFinding right{.parameter = "output.bias", .checked = 3, .largest_error = 1e-7},
      wrong{.parameter = "hidden.weight", .checked = 20, .largest_error = 0.5},
      unused{.parameter = "unused", .has_gradient = false};
  EXPECT_EQ(gradient_report({wrong, right, unused}),
            "  hidden.weight  20 numbers, largest relative error 5.0e-01  WRONG\n"
            "  output.bias    3 numbers, largest relative error 1.0e-07\n"
            "  unused         no gradient: the loss does not depend on it\n"
            "backward does not agree with finite differences in 1 parameters; 1 unused: remove them, or set "
            "trainer.find_unused_parameters=true for several workers\n");
  EXPECT_TRUE(gradient_report({right}).ends_with("backward agrees with finite differences\n"));
}

}  // namespace
}  // namespace ddprun
