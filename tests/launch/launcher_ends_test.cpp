// SPDX-License-Identifier: MIT
// How runs end: exit codes and reports.
#include "launch/launch_fixture.h"

#include <csignal>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LauncherEnds, AllDoneIsZeroWithoutAReport) {
  const auto end = FakeLauncher().run({.workers = 3}, {"*:done="});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.err, "stop_requested=0\n");
}

TEST(LauncherEnds, SavedWorkersAre75EvenIfSomeWereDone) {
  EXPECT_EQ(FakeLauncher().run({.workers = 2}, {"*:exit=75"}).exit_code, 75);
  EXPECT_EQ(FakeLauncher().run({.workers = 2}, {"0:done=", "1:exit=75"}).exit_code, 75);
}

TEST(LauncherEnds, UserErrorOfAWorkerIs2AndItsTextAloneIsTheReport) {
  FakeLauncher launcher;
  const auto end =
      launcher.run({.workers = 1}, {"*:err=noise", "*:fail=user|a.yaml:3:1: no such data|starting|-1", "*:exit=2"});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.err, HasSubstr("rank 0 failed: a.yaml:3:1: no such data\n"));
  EXPECT_THAT(end.err, Not(HasSubstr("| noise")));
  EXPECT_EQ(launcher.log(0), "noise\nrank 0: error: a.yaml:3:1: no such data\n");
}

TEST(LauncherEnds, AnyOtherCodeIs1) {
  const auto end = FakeLauncher().run({.workers = 1}, {"*:exit=42"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("rank 0 failed: exit code 42"));
}

TEST(LauncherEnds, ZeroWithoutTheWorkDoneIsAFailure) {
  const auto end = FakeLauncher().run({.workers = 1}, {"*:beat=6|41", "*:exit=0"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err,
              HasSubstr("rank 0 failed: _exit(0) was called before the work was done, by a plugin or one of its "
                        "libraries\n  while: computing, after 41 steps\n"));
}

TEST(LauncherEnds, DeathBySignalIsDecodedWithTheLogsLastLines) {
  const auto end = FakeLauncher().run({.workers = 3}, {"1:babble=30", "1:signal=9", "*:sleep="});
  EXPECT_EQ(end.exit_code, 128 + SIGKILL);
  EXPECT_THAT(end.err,
              HasSubstr("rank 1 failed first: killed by SIGKILL (9): often the kernel's out-of-memory killer"));
  EXPECT_THAT(end.err, HasSubstr("other ranks: 0,2 ended by the launcher\n"));
  EXPECT_THAT(end.err, HasSubstr("logs/rank_1.log\n    | line 20\n"));
  EXPECT_THAT(end.err, HasSubstr("    | line 29\n"));
}

TEST(LauncherEnds, WorkersAreAskedToStopBeforeTheirTimeIsUp) {
  const auto end = FakeLauncher().run({.workers = 2, .environment = {"ENDS_IN_SECONDS=0.2"}},
                                      {"*:catch=15", "*:wait=", "*:exit=75"});
  EXPECT_THAT(end.err, HasSubstr("the job's time is nearly over"));
  EXPECT_THAT(end.err, HasSubstr("stop_requested=1"));
}

TEST(LauncherEnds, ATimeThatIsPastStopsNothing) {
  EXPECT_EQ(FakeLauncher().run({.workers = 2, .environment = {"ENDS_IN_SECONDS=-5"}}, {"*:done="}).exit_code, 0);
}

TEST(LauncherEnds, WorkersThatStandStillTogetherAreEnded) {
  const auto end = FakeLauncher().run({.workers = 3, .grace_seconds = 0, .environment = {"HANG_SECONDS=1"}},
                                      {"*:beat=6|41", "*:sleep="});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("all ranks have stalled"));
}

TEST(LauncherEnds, AWorkerThatIsBehindTheOthersIsTheOneThatHangs) {
  const auto end = FakeLauncher().run({.workers = 3, .grace_seconds = 0, .environment = {"HANG_SECONDS=1"}},
                                      {"1:beat=5|41", "0:beat=6|41", "2:beat=6|41", "*:sleep="});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("rank 1 has hung for"));
  EXPECT_THAT(end.err, HasSubstr("at step 41, loading data"));
  EXPECT_THAT(end.err, HasSubstr("ranks 0,2 at step 41, computing"));
}

TEST(LauncherEnds, AWorkerThatOnlyStartsMayTakeItsTime) {
  FakeLauncher launcher;
  Gate gate(launcher.folder() / "gate");
  launcher.start({.workers = 1, .environment = {"HANG_SECONDS=0.001"}},
                 {"*:beat=0|0", "*:err=begun", "*:await=" + gate.path(), "*:done="});
  launcher.wait_for_err("begun");
  gate.open();
  EXPECT_EQ(launcher.wait().exit_code, 0);
}

TEST(LauncherEnds, SegmentationFaultIs139) {
  const auto end = FakeLauncher().run({.workers = 1}, {"*:signal=11"});
  EXPECT_EQ(end.exit_code, 139);
  EXPECT_THAT(end.err, HasSubstr("SIGSEGV (11)"));
}

// Rank 0 loses contact first; the others notice by the launcher's SIGTERM, so that the order is certain.
LauncherEnd after_rank_0_lost_contact(int workers, const std::vector<std::string>& script) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  Gate gate(launcher.folder() / "gate");
  std::vector<std::string> whole = {"*:catch=15",
                                    "*:hold=" + roll.path(),
                                    "0:await=" + gate.path(),
                                    "0:fail=communication|connection closed|training|7",
                                    "0:exit=1",
                                    "*:wait="};
  whole.insert(whole.end(), script.begin(), script.end());
  launcher.start({.workers = workers}, whole);
  roll.call(workers);
  gate.open();
  return launcher.wait();
}

TEST(LauncherEnds, ReportNamesTheCauseThoughAnotherRankLostContactBefore) {
  const auto end = after_rank_0_lost_contact(3, {"2:fail=internal|bad thing|training|8", "2:exit=1", "1:exit=75"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("rank 2 failed first: bad thing\n  while: training, after 8 steps\n"));
  EXPECT_THAT(end.err, HasSubstr("other ranks: 0 lost contact, 1 preempted\n"));
}

TEST(LauncherEnds, SignalDeathBeatsLostContact) {
  const auto end = after_rank_0_lost_contact(2, {"1:signal=9"});
  EXPECT_EQ(end.exit_code, 128 + SIGKILL);
  EXPECT_THAT(end.err, HasSubstr("rank 1 failed first: killed by SIGKILL"));
}

TEST(LauncherEnds, LostContactAloneIsReportedAsItIs) {
  const auto end =
      FakeLauncher().run({.workers = 2}, {"1:fail=communication|timed out|evaluating|7", "1:exit=1", "*:sleep="});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("rank 1 failed first: timed out\n  while: evaluating, after 7 steps\n"));
}

TEST(LauncherEnds, FailureEndsWorkersThatIgnoreSigterm) {
  FakeLauncher launcher;
  Roll roll(launcher.folder() / "roll");
  Gate gate(launcher.folder() / "gate");
  launcher.start({.workers = 3, .grace_seconds = 0.05},
                 {"*:ignore=15", "*:hold=" + roll.path(), "1:await=" + gate.path(), "1:exit=1", "*:sleep="});
  roll.call(3);
  gate.open();
  const auto end = launcher.wait();
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("other ranks: 0,2 ended by the launcher\n"));
  roll.wait_until_all_are_dead();
}

TEST(LauncherEnds, EarlierAttemptsFailureIsNotThisOnes) {
  FakeLauncher launcher;
  launcher.run({.workers = 1}, {"*:fail=internal|the old one|training|1", "*:exit=1"});
  EXPECT_THAT(launcher.run({.workers = 1}, {"*:exit=1"}).err, HasSubstr("rank 0 failed: exit code 1 "));
}

TEST(LauncherEnds, MissingProgramIsAClearError) {
  const auto end = FakeLauncher().run({.workers = 2, .program = "/nowhere/ddprun"}, {});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("cannot start a worker: /nowhere/ddprun: No such file or directory\n"));
}

TEST(LauncherEnds, UnusableTemporaryFolderIsAUserError) {
  const auto end = FakeLauncher().run({.environment = {"TMPDIR=/proc"}}, {});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.err, HasSubstr("TMPDIR"));
}

}  // namespace
}  // namespace ddprun
