// SPDX-License-Identifier: MIT
#include "launch/failure_report.h"

#include "support/error_of.h"

#include <gmock/gmock.h>

#include <csignal>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using Ends = std::vector<WorkerEnd>;

WorkerEnd failed(int rank, double time, FailureKind kind, int exit_code = 1) {
  WorkerEnd end{.rank = rank, .exit_code = exit_code, .time = time + 1};
  end.failure = WorkerFailure{rank, time, kind, "message of " + std::to_string(rank), "training", 5};
  return end;
}

WorkerEnd killed(int rank, double time, int signal, bool by_launcher = false) {
  return {.rank = rank, .signal = signal, .killed_by_launcher = by_launcher, .time = time};
}

LaunchResult judge(const Ends& ends, int stop_signal = 0) {
  return judge_ends({.workers = ends, .stop_signal = stop_signal});
}

std::string report_of(const Ends& ends) { return judge(ends).report; }

TEST(FailureReport, NamesTheCause) {
  constexpr auto kInternal = FailureKind::kInternal, kUser = FailureKind::kUser, kLost = FailureKind::kCommunication;
  const Refusals<Ends> rows{
      // The earliest of its kind.
      {{failed(0, 12, kInternal), failed(1, 11, kUser)}, "rank 1 failed first"},
      {{failed(0, 12, kLost), failed(1, 11, kLost)}, "rank 1 failed first"},
      {{failed(0, 12, kInternal), killed(1, 11, SIGSEGV)}, "rank 1 failed first"},
      // Lost contact is never the cause of another.
      {{failed(0, 1, kLost), failed(1, 99, kInternal)}, "rank 1 failed first"},
      {{failed(0, 1, kLost), killed(1, 99, SIGKILL)}, "rank 1 failed first"},
      // Death by the launcher's hand is no failure.
      {{killed(0, 1, SIGTERM, true), failed(1, 2, kInternal)},
       "rank 1 failed first ... other ranks: 0 ended by the launcher"},
  };
  expect_refused(report_of, rows);
}

TEST(FailureReport, WhatAllRanksSawIsNotOneRanksOwn) {
  auto first = failed(0, 12, FailureKind::kUser), second = failed(1, 11, FailureKind::kUser);
  first.failure->message = second.failure->message = "the loss is not finite";
  EXPECT_EQ(report_of({first, second}), "all ranks failed: the loss is not finite\n");
  EXPECT_THAT(report_of({first, second, failed(2, 13, FailureKind::kUser)}),
              HasSubstr("other ranks: 0 failed in the same way, 2 failed too\n"));
}

TEST(FailureReport, UserErrorAtTheStartIs2AndLaterIs1) {
  EXPECT_EQ(judge({failed(0, 1, FailureKind::kUser, 2)}).exit_code, 2);
  EXPECT_EQ(judge({failed(0, 1, FailureKind::kUser, 1)}).exit_code, 1);
}

TEST(FailureReport, StopThatEndedSomeExplainsLostContactOfOthers) {
  const auto result = judge({killed(0, 1, SIGTERM, true), failed(1, 2, FailureKind::kCommunication)}, SIGINT);
  EXPECT_EQ(result.exit_code, 128 + SIGINT);
  EXPECT_TRUE(result.stop_requested);
  EXPECT_THAT(result.report, HasSubstr("ranks 0-1 did not save"));
}

TEST(FailureReport, AStopBeforeAnyRankTrainsLosesNothing) {
  auto loading = killed(0, 1, SIGKILL, true), training = killed(1, 1, SIGKILL, true);
  loading.stall = Stall{.activity = Activity::kStarting};
  training.stall = Stall{.activity = Activity::kLoadingData};
  EXPECT_EQ(judge({loading}, SIGTERM).exit_code, kExitPreempted);
  EXPECT_EQ(judge({loading}, SIGTERM).report, "rank 0 had not started to train before the end; run it again\n");
  EXPECT_EQ(judge({loading}, SIGINT).exit_code, 128 + SIGINT);
  EXPECT_EQ(judge({loading, training}, SIGTERM).exit_code, 128 + SIGTERM);
}

TEST(FailureReport, FailureWhileStoppingIsAFailureThatIsNotRestarted) {
  const auto result = judge({failed(0, 2, FailureKind::kInternal), {.rank = 1, .exit_code = kExitPreempted}}, SIGTERM);
  EXPECT_EQ(result.exit_code, kExitFailed);
  EXPECT_TRUE(result.stop_requested);
  EXPECT_THAT(result.report, HasSubstr("message of 0"));
}

TEST(FailureReport, ACrashIsSaidWithItsPlaceAndItsMoment) {
  auto crashed = killed(1, 2, SIGSEGV);
  crashed.stall = {.activity = Activity::kComputing, .step = 12};
  EXPECT_THAT(
      report_of({failed(0, 3, FailureKind::kCommunication), crashed}),
      StartsWith("rank 1 failed first: killed by SIGSEGV (11): an invalid memory access, in a plugin or a library\n"
                 "  while: computing, after 12 steps\n"));
  crashed.failure =
      WorkerFailure{.rank = 1, .kind = FailureKind::kSignal, .message = "model: plugin lenet: in step():"};
  const auto result = judge({crashed});
  EXPECT_THAT(result.report, StartsWith("rank 1 failed: model: plugin lenet: in step(): killed by SIGSEGV (11)"));
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
}

TEST(FailureReport, AWatchdogThatEndedARankSaysItsOwnErrorOrAnothers) {
  auto ended = failed(1, 5, FailureKind::kInternal, 0);
  ended.signal = SIGABRT;
  const auto lost = failed(0, 3, FailureKind::kCommunication);
  EXPECT_TRUE(says(report_of({lost, ended}), "rank 1 failed first: message of 1 (SIGABRT)\n ... 0 lost contact\n"));
  ended.failure->kind = FailureKind::kCommunication;
  EXPECT_THAT(report_of({lost, ended}), HasSubstr("other ranks: 1 lost contact\n"));
}

TEST(FailureReport, ACrashCountsFromItsOwnReportHoweverLongItsEndTakes) {
  auto aborted = failed(1, 3, FailureKind::kCommunication, 0);
  aborted.signal = SIGABRT;
  aborted.time = 9;  // written a dump of its memory meanwhile
  EXPECT_THAT(report_of({failed(0, 4, FailureKind::kCommunication), aborted}), StartsWith("rank 1 failed first: "));
  aborted.signal = SIGKILL;  // from outside, at that time
  EXPECT_THAT(report_of({aborted, failed(0, 4, FailureKind::kInternal)}), StartsWith("rank 0 failed first: "));
}

TEST(FailureReport, SignalsAreNamed) {
  EXPECT_THAT(describe_signal(SIGKILL), HasSubstr("SIGKILL (9): often the kernel's out-of-memory killer"));
  EXPECT_THAT(describe_signal(SIGABRT), HasSubstr("SIGABRT (6)"));
  EXPECT_EQ(describe_signal(50), "signal 50");
}

}  // namespace
}  // namespace ddprun
