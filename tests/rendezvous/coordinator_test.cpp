// SPDX-License-Identifier: MIT
#include "rendezvous/coordinator.h"

#include "rendezvous/scene.h"
#include "rendezvous/simulated_run.h"
#include "support/error_of.h"
#include "support/repetitions.h"

#include <csignal>

namespace ddprun {
namespace {

using testing::elastic;
using testing::fixed;
using testing::Scene;

TEST(Coordinator, StartsOnceAllNodesAreThereOfWhichTheFirstHasTheLowestRanks) {
  Scene run(fixed(2));
  run.join(1, 3);
  EXPECT_EQ(run.orders(), "");
  run.join(0);
  EXPECT_EQ(run.orders(), "0 start, 1 start");
  EXPECT_EQ(run.starts[0].first_rank, 0);
  EXPECT_EQ(run.starts[1].first_rank, 2);
  EXPECT_EQ(run.starts[1].world_size, 5);
  EXPECT_EQ(run.starts[1].nodes, 2);
}

TEST(Coordinator, NodeRanksDecideTheOrderWhateverNodeComesFirst) {
  Scene run(fixed(3));
  for (const int node : {2, 1, 0}) run.join(node, 1, node);
  run.orders();
  for (const int node : {0, 1, 2}) EXPECT_EQ(run.starts[node].node, node);
}

TEST(Coordinator, ANodeThatJoinsTwiceIsOneNode) {
  Scene run(fixed(2), 1);
  run.join(0);
  EXPECT_EQ(run.orders(), "") << "it has not the nodes that it waits for, and refuses none";
  run.join(1);
  EXPECT_EQ(run.orders(), "0 start, 1 start");
  run.join(1, 5);
  run.end(1, kExitDone);
  run.end(0, kExitDone);
  EXPECT_EQ(run->result().exit_code, kExitDone);
  EXPECT_EQ(run.worlds.size(), 1U);
}

TEST(Coordinator, ANodeTooManyATakenRankAndOneThatComesAfterTheEndAreRefused) {
  Scene run(fixed(3));
  run.join(0, 1, 0);
  run.join(1, 1, 0);
  EXPECT_EQ(run.orders(), "1 finish");
  EXPECT_TRUE(says(run.finishes[1].text, "taken by host0"));
  EXPECT_EQ(run.finishes[1].exit_code, kExitUsage);
  Scene full(fixed(1), 1);
  full.join(1);
  EXPECT_EQ(full.orders(), "1 finish");
  EXPECT_TRUE(says(full.finishes[1].text, "its 1 nodes already"));
  full.end(0, kExitDone);
  full.join(2);
  full.orders();
  EXPECT_TRUE(says(full.finishes[2].text, "over"));
}

TEST(Coordinator, WaitsForNodesOnlySoLong) {
  Scene run({.min_nodes = 3, .max_nodes = 3, .join_seconds = 60}, 2);
  run.pass(59);
  EXPECT_FALSE(run->finished());
  run.pass(1);
  ASSERT_TRUE(run->finished());
  EXPECT_TRUE(says(run->result().report, "waited 60 s for 3 nodes; there are 2: host0, host1"));
  EXPECT_EQ(run->result().exit_code, kExitFailed);
}

TEST(Coordinator, AllDoneIsTheEnd) {
  Scene run(fixed(2), 2);
  run.end(0, kExitDone);
  EXPECT_FALSE(run->finished());
  run.end(1, kExitDone);
  EXPECT_EQ(run->result().exit_code, kExitDone);
  EXPECT_EQ(run.orders(), "0 finish, 1 finish");
}

TEST(Coordinator, AFailureEndsTheOthersAtOnceAndIsNamed) {
  Scene run(fixed(3), 3);
  run.fail(1);
  EXPECT_EQ(run.orders(), "0 abort, 2 abort");
  run.end(1, kExitFailed, FailureKind::kInternal);
  run.end(0, kExitFailed, FailureKind::kCommunication);
  run.end(2, kExitFailed, FailureKind::kCommunication);
  ASSERT_TRUE(run->finished());
  EXPECT_TRUE(says(run->result().report, "rank 2 on host1 failed first: bad ... 0-1,4-5 lost contact"));
}

TEST(Coordinator, ANodeThatDoesNotSayHowItEndedIsNotAwaitedForEver) {
  for (const bool leaps : {false, true}) {
    Scene run({.min_nodes = 2, .max_nodes = 2, .stop_seconds = 60, .abort_seconds = 20}, 2);
    run.fail(0);
    run.end(0, kExitFailed, FailureKind::kInternal);
    if (leaps) run.leap(3600);  // this process stood still: the others get their time again
    run.pass(19);
    EXPECT_FALSE(run->finished());
    run.pass(1);
    ASSERT_TRUE(run->finished());
    EXPECT_TRUE(says(run->result().report, "rank 0 on host0 failed first: bad"));
    EXPECT_EQ(run.orders(), "0 finish, 1 abort, 1 finish");
  }
}

TEST(Coordinator, ANodeThatIsBusyWithItsDataIsAwaited) {
  Scene run({.min_nodes = 2, .max_nodes = 2, .abort_seconds = 20});
  for (const int node : {0, 1}) run.join(node);
  run->take_orders();
  run->started(0, 0);
  run.fail(0);
  run.end(0, kExitFailed, FailureKind::kInternal);
  run.pass(3600);
  EXPECT_FALSE(run->finished());
  run.end(1, kExitPreempted);
  EXPECT_TRUE(run->finished());
}

TEST(Coordinator, RestartsAsOftenAsAllowedWithLongerPauses) {
  Scene run(fixed(1, 2), 1);
  run.end(0, kExitFailed, FailureKind::kInternal);
  EXPECT_EQ(run.orders(), "");
  run.pass(1);
  EXPECT_EQ(run.orders(), "0 start");
  EXPECT_EQ(run.starts[0].number, 1);
  run.end(0, kExitFailed, FailureKind::kInternal);
  run.pass(1.5);
  EXPECT_EQ(run.orders(), "");
  run.pass(0.5);
  EXPECT_EQ(run.orders(), "0 start");
  run.end(0, kExitFailed, FailureKind::kInternal);
  EXPECT_EQ(run->result().exit_code, kExitFailed);
  EXPECT_TRUE(std::ranges::any_of(run.said, [](const auto& text) { return says(text, "restart 2 of 2"); }));
}

TEST(Coordinator, ARollbackStartsTheNextAttemptAtOnceAndIsNoRestartAfterAFailure) {
  Scene run(fixed(2));
  for (const int node : {0, 1}) run.join(node);
  for (int attempt = 0; attempt < 5; ++attempt) {
    EXPECT_EQ(run.orders(), "0 start, 1 start");
    EXPECT_EQ(run.starts[1].number, attempt);
    run.roll_back(1);
    EXPECT_EQ(run.orders(), "");
    run.roll_back(0);
  }
  run.orders();
  for (const int node : {0, 1}) run.end(node, kExitDone);
  EXPECT_EQ(run->result().exit_code, kExitDone);

  Scene failed(fixed(2), 2);  // beside a failure it is the failure
  failed.roll_back(1);
  failed.end(0, kExitFailed, FailureKind::kUser);
  EXPECT_EQ(failed->result().exit_code, kExitFailed);
  Scene stopped(fixed(1), 1);  // a run that is to stop is not rolled back any more
  stopped.signal(0, SIGTERM);
  stopped.roll_back(0);
  EXPECT_EQ(stopped->result().exit_code, kExitPreempted);
}

TEST(Coordinator, WhatARestartCannotCureIsNotTriedAgain) {
  for (const int code : {kExitUsage, kExitFailed}) {  // a mistake, and a loss that is not finite
    Scene run(fixed(1, 5), 1);
    run.end(0, code, FailureKind::kUser);
    ASSERT_TRUE(run->finished());
    EXPECT_EQ(run->result().exit_code, code);
  }
  for (const auto kind : {FailureKind::kMemory, FailureKind::kReplicas}) {  // not twice at the same step
    Scene run(fixed(1, 5), 1);
    run.end(0, kExitFailed, kind, 10);
    run.pass(1);
    EXPECT_FALSE(run->finished());
    run.end(0, kExitFailed, kind, 12);
    run.pass(2);
    EXPECT_FALSE(run->finished());
    run.end(0, kExitFailed, kind, 12);
    EXPECT_TRUE(run->finished());
  }
}

TEST(Coordinator, ALostNodeEndsTheOthersAndIsNamedAndAFixedWorldWaitsForItsReturn) {
  Scene run(fixed(2), 2);
  run.lose(1);
  EXPECT_EQ(run.orders(), "0 abort");
  run.end(0, kExitFailed, FailureKind::kCommunication);
  EXPECT_TRUE(says(run->result().report, "node 1 (host1) is lost: gone"));
  EXPECT_EQ(run->result().exit_code, kExitFailed);

  Scene again(fixed(2, 1), 2);
  again.lose(1);
  again.end(0, kExitFailed, FailureKind::kCommunication);
  EXPECT_TRUE(says(again.said.back(), "it needs 1 node more, restarted within 600 s"));
  again.orders();
  again.pass(30);
  EXPECT_EQ(again.orders(), "");
  again.join(5);
  EXPECT_EQ(again.orders(), "0 start, 5 start");
}

TEST(Coordinator, OfManyHostsItNamesTheFirst) {
  Scene run(fixed(1000), 1000);
  EXPECT_EQ(run.worlds.back(), (std::pair{2000, 1000}));
  EXPECT_TRUE(says(run.said.back(), "host15 (2), and 984 more"));
}

TEST(Coordinator, ASignalStopsEveryNodeAndEndsTheWaiting) {
  for (const auto& [plan, number] : {std::pair(fixed(2, 5), SIGTERM), {elastic(1, 2), SIGINT}}) {
    Scene run(plan, 2);
    run.signal(1, number);
    EXPECT_EQ(run.orders(), "0 stop");
    for (const int node : {0, 1}) run.end(node, kExitPreempted);
    EXPECT_EQ(run->result().exit_code, kExitPreempted);
  }
  Scene waits(fixed(2), 1);
  waits.signal(0, SIGTERM);
  EXPECT_EQ(waits->result().exit_code, kExitSignalBase + SIGTERM);

  Scene run({.min_nodes = 2, .max_nodes = 2, .stop_seconds = 3600, .abort_seconds = 20}, 2);
  run.signal(0, SIGTERM);
  run.end(0, kExitPreempted);
  EXPECT_EQ(run.orders(), "1 stop");
  run.signal(0, SIGTERM, /*at_once=*/true);
  EXPECT_EQ(run.orders(), "1 kill");
  run.pass(20);
  EXPECT_TRUE(run->finished());
}

TEST(Coordinator, ARunFolderThatCannotBeMadeEndsTheRun) {
  Scene run(fixed(1));
  run.refusal = "the disk is full";
  run.join(0);
  EXPECT_EQ(run->result().exit_code, kExitUsage);
  Scene begun(fixed(1, 1), 1);
  begun.refusal = "the disk is full";
  begun.end(0, kExitFailed, FailureKind::kInternal);
  begun.pass(1);
  EXPECT_EQ(begun->result().exit_code, kExitFailed) << "a run that has begun has failed";
  for (auto* one : {&run, &begun}) EXPECT_TRUE(says((*one)->result().report, "the disk is full"));
}

TEST(ElasticWorld, HasThoseThatAreLeftAndTakesInWhatComes) {
  Scene run(elastic(1, 3), 3);
  run.lose(2);
  for (const int node : {0, 1}) run.end(node, kExitFailed, FailureKind::kCommunication);
  run.orders();
  run.pass(9);
  EXPECT_EQ(run.orders(), "") << "the last call";
  run.pass(1);
  EXPECT_EQ(run.orders(), "0 start, 1 start");
  EXPECT_EQ(run.worlds, (std::vector<std::pair<int, int>>{{6, 3}, {4, 2}}));

  Scene grows(elastic(1, 2), 1);
  grows.pass(10);
  grows.orders();
  grows.join(1);
  EXPECT_EQ(grows.orders(), "0 stop");
  grows.end(0, kExitPreempted);
  EXPECT_EQ(grows.orders(), "0 start, 1 start");
}

TEST(ElasticWorld, APreemptedNodeLeavesAndTheOthersStay) {
  Scene run(elastic(1, 2), 2);
  run.signal(1, SIGTERM);
  EXPECT_EQ(run.orders(), "0 stop");
  for (const int node : {0, 1}) run.end(node, kExitPreempted);
  run.pass(10);
  EXPECT_EQ(run.orders(), "0 start, 1 finish");
  EXPECT_EQ(run.finishes[1].exit_code, kExitPreempted);
}

TEST(ElasticWorld, ANodeThatLeavesAndIsThenLostIsMissingOnce) {
  Scene run(elastic(2, 4), 4);
  run.signal(3, SIGTERM);
  run.lose(3);
  for (const int node : {0, 1, 2}) run.end(node, kExitPreempted);
  run.pass(11);
  EXPECT_EQ(run.worlds.back(), (std::pair{6, 3}));
  run.signal(2, SIGTERM);  // two are enough: the others run on without it
  for (const int node : {0, 1, 2}) run.end(node, kExitPreempted);
  run.pass(11);
  EXPECT_EQ(run.worlds.back(), (std::pair{4, 2}));
}

TEST(Simulation, EveryLauncherEndsNoTwoAttemptsRunAtOnceAndTheReportNamesTheCause) {
  const auto [first, end] = testing::seeds(2000);
  for (auto seed = first; seed < end; ++seed) {
    testing::SimulatedRun run(static_cast<uint64_t>(seed));
    const auto broken = run.play();
    std::string text;
    for (const auto& line : broken) text += "  " + line + "\n";
    for (const auto& line : run.story()) text += "    " + line + "\n";
    ASSERT_TRUE(broken.empty()) << "DDPRUN_SEED=" << seed << "\n" << text;
  }
}

using Silent = std::vector<int>;

TEST(Liveness, ThoseNotHeardOfWithinTheTimeoutAreSilent) {
  Liveness liveness(10);
  const Liveness::Time start(std::chrono::hours(1));
  for (const int peer : {1, 2}) liveness.seen(peer, start);
  for (int second = 1; second < 10; ++second) {
    liveness.seen(2, start + seconds(second));
    EXPECT_EQ(liveness.silent(start + seconds(second)), Silent{});
  }
  EXPECT_EQ(liveness.silent(start + seconds(10)), Silent{1});
  liveness.forget(1);
  EXPECT_EQ(liveness.silent(start + seconds(11)), Silent{});
}

TEST(Liveness, NobodyIsSilentBecauseThisProcessStoodStill) {
  Liveness liveness(10);
  const Liveness::Time start(std::chrono::hours(1));
  liveness.seen(1, start);
  for (const int second : {0, 60, 64, 68}) EXPECT_EQ(liveness.silent(start + seconds(second)), Silent{}) << second;
  EXPECT_EQ(liveness.silent(start + seconds(70)), Silent{1});
}

}  // namespace
}  // namespace ddprun
