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
using ::testing::Not;

constexpr auto kStopping = "stopping: saving a checkpoint";

class SavedOnSignal : public ::testing::TestWithParam<int> {};

TEST_P(SavedOnSignal, EachWorkerIsAskedOnceAndTheRunIs75) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 3}, {"*:catch=15", "*:hold=" + roll.path(), "*:wait=", "*:exit=75"});
  roll.call(3);
  launcher.send(GetParam());
  const auto end = launcher.wait();
  EXPECT_EQ(end.exit_code, 75);
  EXPECT_THAT(end.err, HasSubstr(kStopping));
  EXPECT_THAT(end.err, HasSubstr("stop_requested=1"));
}

INSTANTIATE_TEST_SUITE_P(Signals, SavedOnSignal, ::testing::Values(SIGINT, SIGTERM, SIGUSR1, SIGHUP));

TEST(LauncherProcess, SecondInterruptEndsAtOnce) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 2}, {"*:ignore=15", "*:hold=" + roll.path(), "*:sleep="});
  roll.call(2);
  const auto end = launcher.interrupt_until_end();
  EXPECT_EQ(end.exit_code, 130);
  roll.wait_until_all_are_dead();
}

TEST(LauncherProcess, WhatAWorkerHasStartedEndsWithIt) {
  for (const char* end : {"*:done=", "*:exit=1", "*:signal=11"}) {
    FakeLauncher launcher;
    Roll roll(launcher.folder() / "roll");
    launcher.start({}, {"*:hold=" + roll.path(), "*:child=", end});
    roll.call(1);
    launcher.wait();
    roll.wait_until_all_are_dead();
  }
}

// As `setsid sleep 1000 &` does, or a server that a plugin starts.
TEST(LauncherProcess, WhatHasLeftItsWorkersGroupEndsWithTheAttempt) {
  for (const char* end : {"*:done=", "*:exit=1", "*:signal=11"}) {
    FakeLauncher launcher;
    Roll roll(launcher.folder() / "roll");
    launcher.start({}, {"*:hold=" + roll.path(), "*:daemon=", end});
    roll.call(1);
    launcher.wait();
    roll.wait_until_all_are_dead();
  }
}

TEST(LauncherProcess, SecondSigtermIsNoMoreThanTheFirst) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  Gate gate(launcher.folder() / "gate");
  launcher.start({.workers = 2},
                 {"*:catch=15", "*:hold=" + roll.path(), "*:wait=", "*:await=" + gate.path(), "*:exit=75"});
  roll.call(2);
  launcher.send(SIGTERM);
  launcher.wait_for_err(kStopping);
  launcher.send(SIGTERM);
  gate.open();
  EXPECT_EQ(launcher.wait().exit_code, 75);
}

TEST(LauncherProcess, WorkersThatCannotSaveAreKilledAfterTheGrace) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 2, .grace_seconds = 0.05}, {"*:ignore=15", "*:hold=" + roll.path(), "*:sleep="});
  roll.call(2);
  launcher.send(SIGTERM);
  const auto end = launcher.wait();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_THAT(end.err, HasSubstr("ranks 0-1 did not save before the end"));
}

TEST(LauncherProcess, WorkersThatWereStartingHaveLostNothing) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 1, .grace_seconds = 0.05},
                 {"*:beat=0|0", "*:ignore=15", "*:hold=" + roll.path(), "*:sleep="});
  roll.call(1);
  launcher.send(SIGTERM);
  const auto end = launcher.wait();
  EXPECT_EQ(end.exit_code, 75);
  EXPECT_THAT(end.err, HasSubstr("rank 0 had not started to train before the end; run it again"));
}

TEST(LauncherProcess, HangupThatIsIgnoredStaysIgnored) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  Gate gate(launcher.folder() / "gate");
  const auto old = ::signal(SIGHUP, SIG_IGN);  // as nohup does
  launcher.start({.workers = 1}, {"*:hold=" + roll.path(), "*:await=" + gate.path(), "*:done="});
  ::signal(SIGHUP, old);
  const auto pids = roll.call(1);
  launcher.send(SIGHUP);
  ::kill(pids.at(0), SIGHUP);
  gate.open();
  const auto end = launcher.wait();
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.err, Not(HasSubstr(kStopping)));
}

char state_of(pid_t pid) {
  const auto stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  return stat.at(stat.rfind(')') + 2);
}

TEST(LauncherProcess, TerminalStopPausesTheWorkersToo) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 2}, {"*:catch=15", "*:hold=" + roll.path(), "*:wait=", "*:exit=75"});
  const auto pids = roll.call(2);
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
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 4}, {"*:ignore=15", "*:hold=" + roll.path(), "*:sleep="});
  roll.call(4);
  launcher.send(SIGKILL);
  roll.wait_until_all_are_dead();
}

// Rank 0 and the launcher hold the pipe's end: it closes when both are dead.
TEST(LauncherProcess, NobodyIsLeftWheneverTheLauncherIsKilled) {
  for (int round = 0; round < 30; ++round) {
    FakeLauncher folder;
    Pipe out = make_pipe();
    SpawnRequest request{
        .command = {FAKE_LAUNCHER, (folder.folder() / "run").string(), "3", "60", FAKE_WORKER, "*:sleep="},
        .environment = {"TMPDIR=" + folder.folder().string()},
        .stdout_fd = out.write.get()};
    const pid_t launcher = spawn(request);
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
  Roll one_roll(one.folder() / "roll"), other_roll(other.folder() / "roll");
  Gate gate(other.folder() / "gate");
  one.start({.workers = 2}, {"*:catch=15", "*:hold=" + one_roll.path(), "*:store=", "*:wait=", "*:exit=75"});
  other.start({.workers = 2}, {"*:hold=" + other_roll.path(), "*:store=", "*:await=" + gate.path(), "*:done="});
  one_roll.call(2);
  other_roll.call(2);
  one.send(SIGTERM);
  EXPECT_EQ(one.wait().exit_code, 75);
  gate.open();
  EXPECT_EQ(other.wait().exit_code, 0);
  EXPECT_NE(one.log(0), other.log(0));
}

TEST(LauncherProcess, OnlyItsOwnProcessesAreSignalled) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 3, .grace_seconds = 0.05}, {"*:ignore=15", "*:hold=" + roll.path(), "*:sleep="});
  const auto pids = roll.call(3);
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

TEST(LauncherProcess, WorkersLeadGroupsOfTheirOwn) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 2}, {"*:hold=" + roll.path(), "*:sleep="});
  for (const auto& [rank, pid] : roll.call(2)) EXPECT_EQ(::getpgid(pid), pid) << "rank " << rank;
}

TEST(LauncherProcess, WorkersStartWithoutBlockedOrIgnoredSignals) {
  sigset_t term, old;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigaddset(&term, SIGUSR2);
  ::sigprocmask(SIG_BLOCK, &term, &old);
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 1}, {"*:hold=" + roll.path(), "*:sleep="});
  ::sigprocmask(SIG_SETMASK, &old, nullptr);
  const auto pids = roll.call(1);
  const auto status = read_text("/proc/" + std::to_string(pids.at(0)) + "/status");
  EXPECT_THAT(status, HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(status, HasSubstr("SigIgn:\t0000000000200000"));  // SIGTTOU alone
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

TEST(LauncherProcess, NothingOfTheLaunchersIsOpenInAWorker) {
  const auto inherited = open_files("self");
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  launcher.start({.workers = 3}, {"*:hold=" + roll.path(), "*:sleep="});
  for (const auto& [rank, pid] : roll.call(3)) {
    auto open = open_files(std::to_string(pid));
    open.erase(roll.path());
    for (const auto& file : inherited) open.erase(file);
    EXPECT_THAT(open, ::testing::IsEmpty()) << "rank " << rank;
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
