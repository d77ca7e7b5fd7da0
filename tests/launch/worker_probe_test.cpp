// SPDX-License-Identifier: MIT
#include "launch/worker_handle.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <unistd.h>

#include <csignal>

namespace ddprun {
namespace {

class WorkerProbeTest : public FolderTest {
 protected:
  std::optional<ProbeAnswer> read_back(const std::string& text) const {
    write(folder_ / "probe_answer", text);
    return read_probe_answer(folder_ / "probe_answer");
  }
};

volatile std::sig_atomic_t asked = 0;

TEST_F(WorkerProbeTest, OnlyWhoCanAnswerIsAsked) {
  std::signal(SIGUSR2, SIG_DFL);
  EXPECT_FALSE(probe_worker(::getpid()));  // it would have killed this process
  std::signal(SIGUSR2, [](int) { asked = 1; });
  EXPECT_TRUE(probe_worker(::getpid()));
  ::poll(nullptr, 0, 0);  // ThreadSanitizer keeps signals back until a call that may wait
  EXPECT_EQ(asked, 1);
  std::signal(SIGUSR2, SIG_DFL);
}

TEST_F(WorkerProbeTest, AHookACollectiveOrNeither) {
  const auto hook = read_back("model\nstep\n");
  ASSERT_TRUE(hook);
  EXPECT_EQ(hook->section, "model");
  EXPECT_EQ(hook->name, "step");
  EXPECT_FALSE(hook->waits());
  EXPECT_TRUE(read_back("\nall-reduce\n")->waits());
  EXPECT_FALSE(read_back("\n\n")->waits());
}

TEST_F(WorkerProbeTest, NoAnswerIsNothing) {
  EXPECT_FALSE(read_probe_answer("/dev/null/probe_answer"));
  EXPECT_FALSE(read_back(""));
}

}  // namespace
}  // namespace ddprun
