// SPDX-License-Identifier: MIT
// How runs end: exit codes and reports.
#include "launch/launch_fixture.h"
#include "support/error_of.h"

#include <csignal>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct EndRow {
  LauncherOptions options;
  Script script;
  int exit_code;
  std::string words;  // on standard error
};

// Expects an exit code, and words on standard error (support/error_of.h).
void expect_ends(const std::vector<EndRow>& rows) {
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto end = FakeLauncher().run(rows[row].options, rows[row].script);
    EXPECT_EQ(end.exit_code, rows[row].exit_code) << "row " << row << ": " << end.err;
    EXPECT_TRUE(says(end.err, rows[row].words)) << "row " << row;
  }
}

TEST(LauncherEnds, AsItsWorkersDo) {
  const auto killed =
      "rank 1 failed first: killed by SIGKILL (9): often the kernel's out-of-memory killer"
      " ... other ranks: 0,2 ended by the launcher\n ... logs/rank_1.log\n    | line 20\n ...     | line 29\n";
  const auto undone =
      "rank 0 failed: _exit(0) was called before the work was done, by a plugin or one of its libraries\n"
      "  while: computing, after 41 steps\n";
  expect_ends({
      {{.workers = 2}, {"*:exit=75"}, 75, "stop_requested=0"},
      {{.workers = 2}, {"0:done=", "1:exit=75"}, 75, "stop_requested=0"},
      {{}, {"*:exit=42"}, 1, "rank 0 failed: exit code 42"},
      {{}, {"*:beat=6|41", "*:exit=0"}, 1, undone},
      {{.workers = 3}, {"1:babble=30", "1:signal=9", "*:sleep="}, 128 + SIGKILL, killed},
      {{}, {"*:signal=11"}, 139, "SIGSEGV (11)"},
      {{.workers = 2},
       {"1:fail=communication|timed out|evaluating|7", "1:exit=1", "*:sleep="},
       1,
       "rank 1 failed first: timed out\n  while: evaluating, after 7 steps\n"},
      {{.workers = 2, .program = "/nowhere/ddprun"},
       {},
       1,
       "cannot start a worker: /nowhere/ddprun: No such file or directory\n"},
      {{.environment = {"TMPDIR=/proc"}}, {}, 2, "TMPDIR"},
  });
  const auto end = FakeLauncher().run({.workers = 3}, {"*:done="});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.err, "stop_requested=0\n") << "no report";
}

TEST(LauncherEnds, BeforeTheJobsTimeIsUpAndWhereWorkersHang) {
  const LauncherOptions hanging{.workers = 3, .grace_seconds = 0, .environment = {"HANG_SECONDS=1"}};
  expect_ends({
      {{.workers = 2, .environment = {"ENDS_IN_SECONDS=0.2"}},
       {"*:catch=15", "*:wait=", "*:exit=75"},
       75,
       "the job's time is nearly over ... stop_requested=1"},
      {{.workers = 2, .environment = {"ENDS_IN_SECONDS=-5"}}, {"*:done="}, 0, "stop_requested=0"},  // it is past
      {hanging, {"*:beat=6|41", "*:sleep="}, 1, "all ranks have stalled"},
      {hanging,
       {"1:beat=5|41", "0:beat=6|41", "2:beat=6|41", "*:sleep="},
       1,
       "rank 1 has hung for ... at step 41, loading data ... ranks 0,2 at step 41, computing"},
  });
}

TEST(LauncherEnds, UserErrorOfAWorkerIs2AndItsTextAloneIsTheReport) {
  FakeLauncher launcher;
  const auto end = launcher.run({}, {"*:err=noise", "*:fail=user|a.yaml:3:1: no such data|starting|-1", "*:exit=2"});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.err, HasSubstr("rank 0 failed: a.yaml:3:1: no such data\n"));
  EXPECT_THAT(end.err, Not(HasSubstr("| noise")));
  EXPECT_EQ(launcher.log(0), "noise\nrank 0: error: a.yaml:3:1: no such data\n");
}

TEST(LauncherEnds, AWorkerThatOnlyStartsMayTakeItsTime) {
  FakeLauncher launcher;
  launcher.start({.environment = {"HANG_SECONDS=0.001"}}, {"*:beat=0|0", "*:err=begun", "*:await=", "*:done="});
  launcher.wait_for_err("begun");
  launcher.open_gate();
  EXPECT_EQ(launcher.wait().exit_code, 0);
}

// Rank 0 loses contact first; the others notice by the launcher's SIGTERM, so that the order is certain.
LauncherEnd after_rank_0_lost_contact(int workers, const Script& script) {
  FakeLauncher launcher;
  Script whole = {"*:catch=15", "*:hold=", "0:await=", "0:fail=communication|connection closed|training|7",
                  "0:exit=1",   "*:wait="};
  whole.insert(whole.end(), script.begin(), script.end());
  launcher.start({.workers = workers}, whole);
  launcher.open_gate();
  return launcher.wait();
}

TEST(LauncherEnds, ReportNamesTheCauseThoughAnotherRankLostContactBefore) {
  const auto end = after_rank_0_lost_contact(3, {"2:fail=internal|bad thing|training|8", "2:exit=1", "1:exit=75"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_TRUE(says(end.err,
                   "rank 2 failed first: bad thing\n  while: training, after 8 steps\n ... "
                   "other ranks: 0 lost contact, 1 preempted\n"));
  const auto killed = after_rank_0_lost_contact(2, {"1:signal=9"});
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(says(killed.err, "rank 1 failed first: killed by SIGKILL"));
}

TEST(LauncherEnds, FailureEndsWorkersThatIgnoreSigterm) {
  FakeLauncher launcher;
  launcher.start({.workers = 3, .grace_seconds = 0.05}, {"*:ignore=15", "*:hold=", "1:await=", "1:exit=1", "*:sleep="});
  launcher.open_gate();
  const auto end = launcher.wait();
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("other ranks: 0,2 ended by the launcher\n"));
  launcher.wait_until_all_are_dead();
}

TEST(LauncherEnds, EarlierAttemptsFailureIsNotThisOnes) {
  FakeLauncher launcher;
  launcher.run({}, {"*:fail=internal|the old one|training|1", "*:exit=1"});
  EXPECT_THAT(launcher.run({}, {"*:exit=1"}).err, HasSubstr("rank 0 failed: exit code 1 "));
}

}  // namespace
}  // namespace ddprun
