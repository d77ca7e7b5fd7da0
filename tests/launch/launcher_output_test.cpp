// SPDX-License-Identifier: MIT
// What workers print: to the files, to the person.
#include "launch/launch_fixture.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::string lines_up_to(int count) {
  std::string text;
  for (int line = 0; line < count; ++line) text += "line " + std::to_string(line) + "\n";
  return text;
}

TEST(LauncherOutput, LogsAreCompleteAndInOrderAndTheTerminalIsNotFlooded) {
  FakeLauncher launcher;
  const auto end = launcher.run({.workers = 3}, {"0:babble=50000", "1:babble=50000", "2:babble_out=50000"});
  EXPECT_EQ(end.exit_code, 0);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(launcher.log(rank), lines_up_to(50000)) << "rank " << rank;
  EXPECT_LT(std::count(end.err.begin(), end.err.end(), '\n'), 1000);
  EXPECT_THAT(end.err, HasSubstr("more lines in logs/rank_0.log"));
}

TEST(LauncherOutput, Rank0PrintsToTheLaunchersOutputOthersToTheirLogs) {
  FakeLauncher launcher;
  const auto end = launcher.run({.workers = 2}, {"0:out=from zero", "1:out=from one"});
  EXPECT_EQ(end.out, "from zero\n");
  EXPECT_EQ(launcher.log(0), "");
  EXPECT_EQ(launcher.log(1), "from one\n");
}

TEST(LauncherOutput, Rank0IsHeardWhileItRuns) {
  FakeLauncher launcher;
  launcher.start({}, {"*:err=hello", "*:sleep="});
  launcher.wait_for_err("hello\n");
}

TEST(LauncherOutput, SameLineOfSeveralIsShownOnce) {
  const auto end = FakeLauncher().run({.workers = 5}, {"1:err=rank 1: warning: slow", "2:err=rank 2: warning: slow",
                                                       "3:err=rank 3: warning: slow", "4:err=other"});
  EXPECT_THAT(end.err, AllOf(HasSubstr("[ranks 1-3] warning: slow\n"), HasSubstr("[rank 4] other\n")));
  EXPECT_EQ(FakeLauncher().run({.workers = 4}, {"*:err=the same"}).err, "the same\nstop_requested=0\n");
}

TEST(LauncherOutput, LastLineWithoutANewlineIsKept) {
  FakeLauncher launcher;
  const auto end = launcher.run({.workers = 2}, {"*:raw=cut of", "0:raw=f", "1:raw=f, other"});
  EXPECT_EQ(launcher.log(0), "cut off");
  EXPECT_THAT(end.err, AllOf(HasSubstr("cut off\n"), HasSubstr("[rank 1] cut off, other\n")));
}

TEST(LauncherOutput, FullDiskIsAWarningAndDelaysNobody) {
  FakeLauncher launcher;
  std::filesystem::create_symlink("/dev/full", launcher.logs() / "rank_1.log");
  const auto end = launcher.run({.workers = 2}, {"*:babble=50000", "1:exit=7"});
  EXPECT_EQ(end.exit_code, 1);
  const auto first = end.err.find("rank_1.log: No space left on device");
  ASSERT_NE(first, std::string::npos) << end.err;
  EXPECT_EQ(end.err.find("No space left", first + 40), std::string::npos) << "said twice";
  EXPECT_THAT(end.err, HasSubstr("    | line 49999\n"));
}

TEST(LauncherOutput, LogThatHangsDelaysNobody) {
  FakeLauncher launcher;
  ASSERT_EQ(::mkfifo((launcher.logs() / "rank_1.log").c_str(), 0600), 0);  // hangs in open(): nobody reads it
  const auto end = launcher.run({.workers = 2}, {"*:babble=50000"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(launcher.log(0), lines_up_to(50000));
  EXPECT_THAT(end.err, ContainsRegex("rank_1.log: .*hangs"));
}

TEST(LauncherOutput, WorkersFindTheirRanksInTheEnvironmentAndTheirAttemptInAFile) {
  FakeLauncher launcher;
  Script script;
  for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "DDPRUN_ATTEMPT", "PLAN_VARIABLE",
                           "INHERITED", "DDPRUN_ON_DEMAND", "DDPRUN_RUN_DIR"})
    script.push_back(std::string("*:env=") + name);
  script.emplace_back("*:attempt=");
  const auto run = launcher.run_dir().string();
  launcher.run({.workers = 2, .environment = {"INHERITED=yes", "WORLD_SIZE=99", "DDPRUN_PLACE=/of/another/run"}},
               script);
  EXPECT_EQ(launcher.log(1),
            "RANK=1\nLOCAL_RANK=1\nWORLD_SIZE=2\nLOCAL_WORLD_SIZE=2\nDDPRUN_ATTEMPT=3\nPLAN_VARIABLE=from the plan\n"
            "INHERITED=yes\nDDPRUN_ON_DEMAND=no\nDDPRUN_RUN_DIR=" +
                run + "\nattempt 3, 1234567890.25, " + run + "\n");
}

TEST(LauncherOutput, ALogBeginsWithWhatItsRankIsAndTheNextAttemptAppends) {
  FakeLauncher launcher;
  launcher.run({.workers = 2}, {"*:err=hello"});
  EXPECT_THAT(read_bytes(launcher.logs() / "rank_1.log"),
              ContainsRegex("^[^ ]+  attempt 3: rank 1 of 2, local rank 1 of 2 on [^ ]+, .*process [0-9]+\nhello\n$"));
  launcher.run({}, {"*:err=second"});
  EXPECT_EQ(launcher.log(0), "hello\nsecond\n");
}

}  // namespace
}  // namespace ddprun
