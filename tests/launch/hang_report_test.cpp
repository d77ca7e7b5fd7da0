// SPDX-License-Identifier: MIT
#include "launch/hang_report.h"

#include "support/error_of.h"

#include <gmock/gmock.h>

#include <csignal>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Ends = std::vector<WorkerEnd>;

WorkerEnd standing(int rank, Activity activity, int64_t step, char state = 'S') {
  WorkerEnd end{.rank = rank, .host = rank < 2 ? "a" : "b", .signal = SIGKILL, .killed_by_launcher = true};
  end.stall = Stall{.activity = activity, .step = step, .seconds = 61.2, .state = state};
  return end;
}

WorkerEnd computing(int rank, char state = 'S') { return standing(rank, Activity::kComputing, 7, state); }

WorkerEnd doing(WorkerEnd end, const std::string& what, bool waits = false) {
  end.stall->doing = what;
  end.stall->waits = waits;
  return end;
}

// One that has reported that a collective failed.
WorkerEnd gave_up(WorkerEnd end, const std::string& message) {
  end.failure = WorkerFailure{.rank = end.rank, .time = 1, .kind = FailureKind::kCommunication, .message = message};
  end.signal = 0;
  end.exit_code = 1;
  return end;
}

std::string hang_report(const Ends& ends) { return judge_ends({.workers = ends, .hung = true}).report; }

TEST(HangReport, NamesWhoKeepsTheOthersWaiting) {
  const auto result =
      judge_ends({.workers = {computing(0), computing(1), standing(2, Activity::kLoadingData, 7, 'T'), computing(3)},
                  .hung = true});
  EXPECT_TRUE(says(result.report,
                   "rank 2 on b has hung for 61 s at step 7, loading data; the process is stopped"
                   " ... ranks 0-1,3 at step 7, computing"));
  ASSERT_TRUE(result.cause);
  EXPECT_EQ(result.cause->kind, FailureKind::kHang);
  EXPECT_EQ(result.cause->step, 7);
  EXPECT_EQ(result.exit_code, kExitFailed);
}

TEST(HangReport, WhoIsFurthestBehindOrDoesNotWaitForOthersIsTheCause) {
  const auto waits = "waits for the others: all-reduce", hook = "in step() of a.yaml:3:10: model: plugin lenet";
  const Refusals<Ends> rows{
      // The step is done and counted before its checkpoint is saved: who saves is behind those who compute.
      {{computing(0), standing(1, Activity::kSaving, 7)}, "rank 1 on a has hung"},
      {{standing(0, Activity::kAgreeing, 8), computing(1)}, "rank 1 on a has hung"},
      // Who still starts is not blamed, but by those who gave up waiting for it.
      {{standing(0, Activity::kStarting, 0), standing(1, Activity::kConnecting, 0)}, "rank 1 on a has hung"},
      {{gave_up(standing(0, Activity::kStarting, 0), "nobody came"), standing(1, Activity::kStarting, 0)},
       "rank 1 on a has hung for 61 s at step 0, starting\n  rank 0 gave up: nobody came\n"},
      // Of those at one place.
      {{computing(0), computing(1, 'T')}, "rank 1 on a has hung for 61 s at step 7, computing; the process is stopped"},
      {{doing(computing(0), waits, true), doing(computing(1, 'R'), hook)},
       std::string("rank 1 on a has hung for 61 s at step 7, computing, ") + hook +
           "; the process is computing\n  rank 0 at step 7, computing, " + waits + "\n"},
      {{computing(0), computing(1)}, "all ranks have stalled"},
      // Of a collective that ran out of time.
      {{gave_up(computing(0), "all-reduce failed: timeout"), computing(1)},
       "rank 1 on a has hung for 61 s at step 7, computing\n  rank 0 gave up: all-reduce failed: timeout\n"},
      {{gave_up(computing(0), "all-reduce failed: timeout")}, "rank 0 on a failed: all-reduce failed"},
  };
  expect_refused(hang_report, rows);
}

// Its GPU waits for the other's, which the host does not see.
TEST(HangReport, WhoCameLateAndDoesNothingThatIsKnownIsNotBlamedAlone) {
  const auto waiting = doing(computing(1), "waits for the others: backward", true);
  auto late = computing(0);
  late.stall->seconds = 31;
  EXPECT_THAT(hang_report({late, waiting}), HasSubstr("all ranks have stalled for 61 s at step 7, computing"));
  EXPECT_THAT(hang_report({doing(late, "in step() of model"), waiting}),
              HasSubstr("rank 0 on a has hung for 31 s at step 7, computing, in step() of model"));
}

TEST(HangReport, OfARankThatNcclsWatchdogEndedTheOneThatStandsStillIsTheCause) {
  auto ended = gave_up(standing(0, Activity::kAgreeing, 7), "NCCL's watchdog ended it");
  ended.signal = SIGABRT;
  ended.killed_by_launcher = false;
  const auto result = judge_ends({.workers = {ended, computing(1)}, .hung = true});
  EXPECT_THAT(
      result.report,
      HasSubstr("rank 1 on a has hung for 61 s at step 7, computing\n  rank 0 gave up: NCCL's watchdog ended it\n"));
  EXPECT_EQ(result.cause->kind, FailureKind::kHang);
  EXPECT_THAT(hang_report({ended}), HasSubstr("rank 0 on a failed: NCCL's watchdog ended it (SIGABRT)\n"));
  ended.signal = SIGSEGV;  // a fault of its own, after it lost contact
  EXPECT_THAT(hang_report({ended, computing(1)}), HasSubstr("killed by SIGSEGV"));
}

TEST(HangReport, ADeathOfItsOwnIsTheBetterCause) {
  const auto text = hang_report({computing(0), {.rank = 1, .signal = SIGSEGV}});
  EXPECT_THAT(text, HasSubstr("rank 1 failed first: killed by SIGSEGV"));
  EXPECT_THAT(text, Not(HasSubstr("hung")));
}

}  // namespace
}  // namespace ddprun
