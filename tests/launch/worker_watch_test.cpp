// SPDX-License-Identifier: MIT
// How a launcher looks after its workers: their beats, what they answer, and what they leave behind.
#include "base/spawn.h"
#include "launch/heartbeat.h"
#include "launch/orphans.h"
#include "launch/worker_handle.h"
#include "support/temporary_folder.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace ddprun {
namespace {

using Heartbeat = FolderTest;

TEST_F(Heartbeat, TheLastBeatIsRead) {
  const auto file = folder_ / "heartbeat";
  EXPECT_FALSE(read_beat(file)) << "nobody has made it";
  write(folder_ / "short", "short");
  EXPECT_FALSE(read_beat(folder_ / "short")) << "it is none";
  HeartbeatWriter writer(file);
  ASSERT_TRUE(read_beat(file)) << "it may hang from here on";
  EXPECT_EQ(read_beat(file)->activity, Activity::kStarting);
  writer.beat(Activity::kLoadingData, 3);
  const auto before = std::chrono::steady_clock::now();
  writer.beat(Activity::kComputing, 4);
  const auto beat = read_beat(file);
  ASSERT_TRUE(beat);
  EXPECT_EQ(beat->activity, Activity::kComputing);
  EXPECT_EQ(beat->step, 4);
  EXPECT_GE(beat->at, before);
  EXPECT_LE(beat->at, std::chrono::steady_clock::now());
}

TEST_F(Heartbeat, BeatsWithoutAPlaceGoNowhere) {
  HeartbeatWriter writer("/dev/null/heartbeat");
  writer.beat(Activity::kComputing, 1);
  EXPECT_FALSE(read_beat("/dev/null/heartbeat"));
}

volatile std::sig_atomic_t asked = 0;

TEST(WorkerProbe, OnlyWhoCanAnswerIsAsked) {
  std::signal(SIGUSR2, SIG_DFL);
  EXPECT_FALSE(probe_worker(::getpid()));  // it would have killed this process
  std::signal(SIGUSR2, [](int) { asked = 1; });
  EXPECT_TRUE(probe_worker(::getpid()));
  ::poll(nullptr, 0, 0);  // ThreadSanitizer keeps signals back until a call that may wait
  EXPECT_EQ(asked, 1);
  std::signal(SIGUSR2, SIG_DFL);
}

TEST(WorkerProbe, TheAnswerIsAHookACollectiveOrNeither) {
  const TestFolder folder;
  const auto read_back = [&](const std::string& text) {
    return read_probe_answer(write_bytes(folder / "probe_answer", text));
  };
  const auto hook = read_back("model\nstep\n");
  ASSERT_TRUE(hook);
  EXPECT_EQ(hook->section, "model");
  EXPECT_EQ(hook->name, "step");
  EXPECT_FALSE(hook->waits());
  EXPECT_TRUE(read_back("\nall-reduce\n")->waits());
  EXPECT_FALSE(read_back("\n\n")->waits());
  EXPECT_FALSE(read_back(""));
  EXPECT_FALSE(read_probe_answer("/dev/null/probe_answer"));
}

TEST(Orphans, ThoseWithTheMarkEndAndNoOthers) {
  const auto start_child = [](const std::string& mark) {
    return spawn({.command = {"/bin/sleep", "1000"}, .environment = {"MARK=" + mark}});
  };
  const auto marked = start_child("/tmp/a-run"), other = start_child("/tmp/another");
  end_orphans("/tmp/a-run");
  EXPECT_EQ(::kill(marked, 0), -1) << "ended and reaped";
  EXPECT_EQ(::waitpid(other, nullptr, WNOHANG), 0) << "still runs";
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

}  // namespace
}  // namespace ddprun
