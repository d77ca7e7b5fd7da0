// SPDX-License-Identifier: MIT
// Signals and deaths: who gets them, and that nobody is left.
#include "launch/launch_fixture.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kStopping = "stopping: saving a checkpoint";
const Script kSave{"*:catch=15", "*:hold=", "*:wait=", "*:exit=75"};  // as soon as they are asked to
const Script kIgnoreSigterm{"*:ignore=15", "*:hold=", "*:sleep="};    // for ever
const Script kHold{"*:hold=", "*:sleep="};

TEST(LauncherProcess, OnASignalEachWorkerIsAskedOnceAndTheRunIs75) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    FakeLauncher launcher;
    launcher.start({.workers = 3}, kSave);
    launcher.send(signal);
    const auto end = launcher.wait();
    EXPECT_EQ(end.exit_code, 75);
    EXPECT_THAT(end.err, HasSubstr(kStopping));
    EXPECT_THAT(end.err, HasSubstr("stop_requested=1"));
  }
}

TEST(LauncherProcess, SecondInterruptEndsAtOnce) {
  FakeLauncher launcher;
  launcher.start({.workers = 2}, kIgnoreSigterm);
  EXPECT_EQ(launcher.interrupt_until_end().exit_code, 130);
  launcher.wait_until_all_are_dead();
}

// In its group, or in a session of its own, as `setsid sleep 1000 &` does, or a server that a plugin starts.
TEST(LauncherProcess, WhatAWorkerHasStartedEndsWithIt) {
  for (const char* started : {"*:child=", "*:daemon="}) {
    for (const char* end : {"*:done=", "*:exit=1", "*:signal=11"}) {
      FakeLauncher launcher;
      launcher.start({}, {"*:hold=", started, end});
      launcher.wait();
      launcher.wait_until_all_are_dead();
    }
  }
}

TEST(LauncherProcess, SecondSigtermIsNoMoreThanTheFirst) {
  FakeLauncher launcher;
  launcher.start({.workers = 2}, {"*:catch=15", "*:hold=", "*:wait=", "*:await=", "*:exit=75"});
  launcher.send(SIGTERM);
  launcher.wait_for_err(kStopping);
  launcher.send(SIGTERM);
  launcher.open_gate();
  EXPECT_EQ(launcher.wait().exit_code, 75);
}

TEST(LauncherProcess, WorkersThatDoNotSaveAreKilledAfterTheGrace) {
  FakeLauncher training;
  training.start({.workers = 2, .grace_seconds = 0.05}, kIgnoreSigterm);
  training.send(SIGTERM);
  const auto lost = training.wait();
  EXPECT_EQ(lost.exit_code, 128 + SIGTERM);
  EXPECT_THAT(lost.err, HasSubstr("ranks 0-1 did not save before the end"));
  FakeLauncher starting;
  starting.start({.grace_seconds = 0.05}, {"*:beat=0|0", "*:ignore=15", "*:hold=", "*:sleep="});
  starting.send(SIGTERM);
  const auto nothing_lost = starting.wait();
  EXPECT_EQ(nothing_lost.exit_code, 75);
  EXPECT_THAT(nothing_lost.err, HasSubstr("rank 0 had not started to train before the end; run it again"));
}

TEST(LauncherProcess, HangupThatIsIgnoredStaysIgnored) {
  FakeLauncher launcher;
  const auto old = ::signal(SIGHUP, SIG_IGN);  // as nohup does
  const auto pids = launcher.start({}, {"*:hold=", "*:await=", "*:done="});
  ::signal(SIGHUP, old);
  launcher.send(SIGHUP);
  ::kill(pids.at(0), SIGHUP);
  launcher.open_gate();
  const auto end = launcher.wait();
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.err, Not(HasSubstr(kStopping)));
}

char state_of(pid_t pid) {
  const auto stat = read_bytes("/proc/" + std::to_string(pid) + "/stat");
  return stat.at(stat.rfind(')') + 2);
}

TEST(LauncherProcess, TerminalStopPausesTheWorkersToo) {
  FakeLauncher launcher;
  const auto pids = launcher.start({.workers = 2}, kSave);
  launcher.send(SIGTSTP);
  int status = 0;
  ASSERT_EQ(::waitpid(launcher.pid(), &status, WUNTRACED), launcher.pid());
  ASSERT_TRUE(WIFSTOPPED(status));
  for (const auto& [rank, pid] : pids) {
    while (state_of(pid) != 'T') ::poll(nullptr, 0, 1);  // it stops when the kernel next looks at it
  }
  launcher.send(SIGCONT);
  launcher.send(SIGTERM);
  EXPECT_EQ(launcher.wait().exit_code, 75);
}

TEST(LauncherProcess, NobodyIsLeftAfterTheLauncherIsKilled) {
  FakeLauncher launcher;
  launcher.start({.workers = 4}, kIgnoreSigterm);
  launcher.send(SIGKILL);
  launcher.wait_until_all_are_dead();
}

// Rank 0 and the launcher hold the pipe's end: it closes when both are dead.
TEST(LauncherProcess, NobodyIsLeftWheneverTheLauncherIsKilled) {
  for (int round = 0; round < 30; ++round) {
    const FakeLauncher folder;
    Pipe out = make_pipe();
    const pid_t launcher = spawn({.command = {FAKE_LAUNCHER, folder.run_dir(), "3", "60", FAKE_WORKER, "*:sleep="},
                                  .environment = {"TMPDIR=" + folder.folder().string()},
                                  .stdout_fd = out.write.get()});
    out.write.reset();
    ::usleep(static_cast<useconds_t>(round) * 300);  // no synchronisation: another instant each time
    ::kill(launcher, SIGKILL);
    ::waitpid(launcher, nullptr, 0);
    pollfd end{out.read.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&end, 1, 60'000), 1);
    ASSERT_TRUE(end.revents & POLLHUP);
  }
}

TEST(LauncherProcess, TwoAtOnceDoNotMeet) {
  FakeLauncher one, other;
  one.start({.workers = 2}, {"*:catch=15", "*:store=", "*:hold=", "*:wait=", "*:exit=75"});
  other.start({.workers = 2}, {"*:store=", "*:hold=", "*:await=", "*:done="});
  one.send(SIGTERM);
  EXPECT_EQ(one.wait().exit_code, 75);
  other.open_gate();
  EXPECT_EQ(other.wait().exit_code, 0);
  EXPECT_NE(one.log(0), other.log(0));
}

TEST(LauncherProcess, OnlyItsOwnProcessesAreSignalled) {
  FakeLauncher launcher;
  const auto pids = launcher.start({.workers = 3, .grace_seconds = 0.05}, kIgnoreSigterm);
  const pid_t bystander = ::fork();
  if (bystander == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  ASSERT_EQ(::setpgid(bystander, launcher.pid()), 0);  // in the launcher's own group
  ::kill(pids.at(1), SIGABRT);
  EXPECT_EQ(launcher.wait().exit_code, 128 + SIGABRT);
  EXPECT_EQ(::waitpid(bystander, nullptr, WNOHANG), 0);
  ::kill(bystander, SIGKILL);
  ::waitpid(bystander, nullptr, 0);
}

// What the files of a process are, beyond the standard streams.
std::set<std::string> open_files(const std::string& process) {
  std::set<std::string> targets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
    std::error_code gone;  // the iterator's own
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (std::stoi(entry.path().filename()) > 2 && !gone) targets.insert(target);
  }
  return targets;
}

TEST(LauncherProcess, WorkersLeadGroupsAndStartWithoutSignalsOrFilesOfTheLaunchers) {
  const auto inherited = open_files("self");
  const auto signals = signal_set(std::vector{SIGTERM, SIGUSR2});
  sigset_t old;
  ::sigprocmask(SIG_BLOCK, &signals, &old);
  FakeLauncher launcher;
  const auto pids = launcher.start({.workers = 3}, kHold);
  ::sigprocmask(SIG_SETMASK, &old, nullptr);
  for (const auto& [rank, pid] : pids) {
    EXPECT_EQ(::getpgid(pid), pid) << "rank " << rank;
    const auto status = read_bytes("/proc/" + std::to_string(pid) + "/status");
    EXPECT_THAT(status, HasSubstr("SigBlk:\t0000000000000000"));
    EXPECT_THAT(status, HasSubstr("SigIgn:\t0000000000200000"));  // SIGTTOU alone
    auto open = open_files(std::to_string(pid));
    open.erase(launcher.roll());
    for (const auto& file : inherited) open.erase(file);
    EXPECT_THAT(open, IsEmpty()) << "rank " << rank;
  }
}

TEST(LauncherProcess, TheRendezvousFolderIsGoneAtTheEnd) {
  FakeLauncher launcher;
  launcher.run({.workers = 2}, {"*:done="});
  for (const auto& entry : std::filesystem::directory_iterator(launcher.folder())) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("ddprun-")));
  }
}

}  // namespace
}  // namespace ddprun
