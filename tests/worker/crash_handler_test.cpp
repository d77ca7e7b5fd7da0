// SPDX-License-Identifier: MIT
#include "worker/crash_handler.h"

#include "base/clock.h"
#include "launch/worker_process.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
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

}  // namespace
}  // namespace ddprun
