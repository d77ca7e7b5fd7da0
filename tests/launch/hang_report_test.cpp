// SPDX-License-Identifier: MIT
#include "launch/hang_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

WorkerEnd standing(int rank, Activity activity, int64_t step, char state = 'S') {
  WorkerEnd end{.rank = rank, .host = rank < 2 ? "a" : "b", .signal = SIGKILL, .killed_by_launcher = true};
  end.stall = Stall{.activity = activity, .step = step, .seconds = 61.2, .state = state};
  return end;
}

TEST(HangReport, NamesWhoKeepsTheOthersWaiting) {
  const AttemptEnd end{.workers = {standing(0, Activity::kComputing, 7), standing(1, Activity::kComputing, 7),
                                   standing(2, Activity::kLoadingData, 7, 'T'), standing(3, Activity::kComputing, 7)},
                       .hung = true};
  const auto result = judge_ends(end);
  EXPECT_THAT(result.report,
              HasSubstr("rank 2 on b has hung for 61 s at step 7, loading data; the process is stopped"));
  EXPECT_THAT(result.report, HasSubstr("ranks 0-1,3 at step 7, computing"));
  ASSERT_TRUE(result.cause);
  EXPECT_EQ(result.cause->kind, FailureKind::kHang);
  EXPECT_EQ(result.cause->step, 7);
  EXPECT_EQ(result.exit_code, kExitFailed);
}

// The step is done and counted before its checkpoint is saved: who saves is behind those who compute the next one.
TEST(HangReport, WhoSavesIsBehindWhoComputes) {
  const AttemptEnd end{.workers = {standing(0, Activity::kComputing, 4), standing(1, Activity::kSaving, 4)},
                       .hung = true};
  EXPECT_THAT(judge_ends(end).report, HasSubstr("rank 1 on a has hung"));
}

TEST(HangReport, WhoStillStartsIsNotBlamed) {
  const AttemptEnd end{.workers = {standing(0, Activity::kStarting, 0), standing(1, Activity::kConnecting, 0)},
                       .hung = true};
  EXPECT_THAT(judge_ends(end).report, HasSubstr("rank 1 on a has hung"));
}

TEST(HangReport, WhoStillStartsIsBlamedByThoseWhoGaveUpWaitingForIt) {
  auto gave_up = standing(0, Activity::kStarting, 0);
  gave_up.failure = WorkerFailure{.rank = 0, .kind = FailureKind::kCommunication, .message = "nobody came"};
  gave_up.signal = 0;
  gave_up.exit_code = 1;
  EXPECT_THAT(judge_ends({.workers = {gave_up, standing(1, Activity::kStarting, 0)}, .hung = true}).report,
              HasSubstr("rank 1 on a has hung for 61 s at step 0, starting\n  rank 0 gave up: nobody came\n"));
}

TEST(HangReport, AnEarlierStepIsFurtherBehindThanAnEarlierActivity) {
  const AttemptEnd end{.workers = {standing(0, Activity::kAgreeing, 8), standing(1, Activity::kComputing, 7)},
                       .hung = true};
  EXPECT_THAT(judge_ends(end).report, HasSubstr("rank 1 on a has hung"));
}

TEST(HangReport, OfThoseAtOnePlaceAStoppedProcessIsTheCause) {
  const AttemptEnd end{.workers = {standing(0, Activity::kComputing, 7), standing(1, Activity::kComputing, 7, 'T')},
                       .hung = true};
  EXPECT_THAT(judge_ends(end).report,
              HasSubstr("rank 1 on a has hung for 61 s at step 7, computing; the process is stopped"));
}

TEST(HangReport, OfThoseAtOnePlaceWhoDoesNotWaitForOthersIsTheCause) {
  auto waiting = standing(0, Activity::kComputing, 7), working = standing(1, Activity::kComputing, 7, 'R');
  waiting.stall->doing = "waits for the others: all-reduce";
  waiting.stall->waits = true;
  working.stall->doing = "in step() of a.yaml:3:10: model: plugin lenet";
  const auto report = judge_ends({.workers = {waiting, working}, .hung = true}).report;
  EXPECT_THAT(
      report,
      HasSubstr("rank 1 on a has hung for 61 s at step 7, computing, in step() of a.yaml:3:10: model: plugin lenet; "
                "the process is computing\n"
                "  rank 0 at step 7, computing, waits for the others: all-reduce\n"));
}

// Its GPU waits for the other's, which the host does not see.
TEST(HangReport, WhoCameLateAndDoesNothingThatIsKnownIsNotBlamedAlone) {
  auto waiting = standing(1, Activity::kComputing, 0);
  waiting.stall->doing = "waits for the others: backward";
  waiting.stall->waits = true;
  auto late = standing(0, Activity::kComputing, 0);
  late.stall->seconds = 31;
  EXPECT_THAT(judge_ends({.workers = {late, waiting}, .hung = true}).report,
              HasSubstr("all ranks have stalled for 61 s at step 0, computing"));
  late.stall->doing = "in step() of model";
  EXPECT_THAT(judge_ends({.workers = {late, waiting}, .hung = true}).report,
              HasSubstr("rank 0 on a has hung for 31 s at step 0, computing, in step() of model"));
}

TEST(HangReport, WhereAllStandEquallyNobodyIsBlamed) {
  const AttemptEnd end{.workers = {standing(0, Activity::kComputing, 7), standing(1, Activity::kComputing, 7)},
                       .hung = true};
  EXPECT_THAT(judge_ends(end).report, HasSubstr("all ranks have stalled"));
}

TEST(HangReport, OfACollectiveThatRanOutOfTimeTheOneThatStandsStillIsTheCause) {
  auto gave_up = standing(0, Activity::kComputing, 7);
  gave_up.failure =
      WorkerFailure{.rank = 0, .time = 1, .kind = FailureKind::kCommunication, .message = "all-reduce failed: timeout"};
  gave_up.signal = 0;
  gave_up.exit_code = 1;
  const auto report = judge_ends({.workers = {gave_up, standing(1, Activity::kComputing, 7)}, .hung = true}).report;
  EXPECT_THAT(
      report,
      HasSubstr("rank 1 on a has hung for 61 s at step 7, computing\n  rank 0 gave up: all-reduce failed: timeout\n"));
  EXPECT_THAT(judge_ends({.workers = {gave_up}, .hung = true}).report,
              HasSubstr("rank 0 on a failed: all-reduce failed"));
}

TEST(HangReport, OfARankThatNcclsWatchdogEndedTheOneThatStandsStillIsTheCause) {
  auto ended = standing(0, Activity::kAgreeing, 7);
  ended.signal = SIGABRT;
  ended.killed_by_launcher = false;
  ended.failure = WorkerFailure{.rank = 0, .kind = FailureKind::kCommunication, .message = "NCCL's watchdog ended it"};
  const auto hung = standing(1, Activity::kComputing, 7);
  const auto result = judge_ends({.workers = {ended, hung}, .hung = true});
  EXPECT_THAT(
      result.report,
      HasSubstr("rank 1 on a has hung for 61 s at step 7, computing\n  rank 0 gave up: NCCL's watchdog ended it\n"));
  EXPECT_EQ(result.cause->kind, FailureKind::kHang);
  EXPECT_THAT(judge_ends({.workers = {ended}, .hung = true}).report,
              HasSubstr("rank 0 on a failed: NCCL's watchdog ended it (SIGABRT)\n"));
  ended.signal = SIGSEGV;  // a fault of its own, after it lost contact
  EXPECT_THAT(judge_ends({.workers = {ended, hung}, .hung = true}).report, HasSubstr("killed by SIGSEGV"));
}

TEST(HangReport, ADeathOfItsOwnIsTheBetterCause) {
  AttemptEnd end{.workers = {standing(0, Activity::kComputing, 7), {.rank = 1, .signal = SIGSEGV}}, .hung = true};
  EXPECT_THAT(judge_ends(end).report, HasSubstr("rank 1 failed first: killed by SIGSEGV"));
  EXPECT_THAT(judge_ends(end).report, Not(HasSubstr("hung")));
}

}  // namespace
}  // namespace ddprun
