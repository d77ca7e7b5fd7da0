// SPDX-License-Identifier: MIT
#include "rendezvous/coordinator.h"

#include "rendezvous/scene.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using testing::fixed;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Scene;
using ::testing::UnorderedElementsAre;
using Kind = Order::Kind;

TEST(Coordinator, StartsOnceAllNodesAreThere) {
  Scene run(fixed(2));
  run.join(0);
  EXPECT_THAT(run.told(), IsEmpty());
  run.join(1, 3);
  EXPECT_THAT(run.told(), UnorderedElementsAre(std::pair(0, Kind::kStart), std::pair(1, Kind::kStart)));
  EXPECT_EQ(run.starts[0].first_rank, 0);
  EXPECT_EQ(run.starts[1].first_rank, 2);
  EXPECT_EQ(run.starts[1].world_size, 5);
  EXPECT_EQ(run.starts[1].nodes, 2);
}

TEST(Coordinator, NodeRanksDecideTheOrderWhoeverComesFirst) {
  Scene run(fixed(3));
  run.join(2, 1, 2);
  run.join(1, 1, 1);
  run.join(0, 1, 0);
  run.told();
  EXPECT_EQ(run.starts[0].node, 0);
  EXPECT_EQ(run.starts[1].node, 1);
  EXPECT_EQ(run.starts[2].node, 2);
}

TEST(Coordinator, TheFirstNodeHasTheLowestRanksThoughItCameLast) {
  Scene run(fixed(2));
  run.join(1);
  run.join(0);
  run.told();
  EXPECT_EQ(run.starts[0].first_rank, 0);
}

TEST(Coordinator, ATakenRankIsRefusedAndNamed) {
  Scene run(fixed(3));
  run.join(0, 1, 0);
  run.join(1, 1, 0);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(1, Kind::kFinish)));
  EXPECT_THAT(run.finishes[1].text, HasSubstr("taken by host0"));
  EXPECT_EQ(run.finishes[1].exit_code, kExitUsage);
}

TEST(Coordinator, ANodeThatJoinsTwiceIsOneNodeAndGoesOn) {
  Scene run(fixed(2));
  run.join(0);
  run.join(0);
  EXPECT_THAT(run.told(), IsEmpty()) << "it has not the nodes that it waits for, and refuses none";
  run.join(1);
  EXPECT_THAT(run.told(), UnorderedElementsAre(std::pair(0, Kind::kStart), std::pair(1, Kind::kStart)));
  run.join(1, 5);
  run.end(1, kExitDone);
  run.end(0, kExitDone);
  EXPECT_EQ(run->result().exit_code, kExitDone);
  EXPECT_EQ(run.worlds.size(), 1U);
}

TEST(Coordinator, ANodeTooManyIsRefused) {
  Scene run(fixed(1));
  run.join(0);
  run.told();
  run.join(1);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(1, Kind::kFinish)));
  EXPECT_THAT(run.finishes[1].text, HasSubstr("its 1 nodes already"));
}

TEST(Coordinator, WaitsForNodesOnlySoLong) {
  Scene run({.min_nodes = 3, .max_nodes = 3, .join_seconds = 60});
  run.join(0);
  run.join(1);
  run.pass(59);
  EXPECT_FALSE(run->finished());
  run.pass(1);
  ASSERT_TRUE(run->finished());
  EXPECT_THAT(run->result().report, HasSubstr("waited 60 s for 3 nodes; there are 2: host0, host1"));
  EXPECT_EQ(run->result().exit_code, kExitFailed);
}

TEST(Coordinator, AllDoneIsTheEnd) {
  Scene run(fixed(2));
  run.join(0);
  run.join(1);
  run.told();
  run.end(0, kExitDone);
  EXPECT_FALSE(run->finished());
  run.end(1, kExitDone);
  EXPECT_EQ(run->result().exit_code, kExitDone);
  EXPECT_THAT(run.told(), UnorderedElementsAre(std::pair(0, Kind::kFinish), std::pair(1, Kind::kFinish)));
}

TEST(Coordinator, AFailureEndsTheOthersAtOnceAndIsNamed) {
  Scene run(fixed(3));
  for (int node : {0, 1, 2}) run.join(node);
  run.told();
  run.fail(1);
  EXPECT_THAT(run.told(), UnorderedElementsAre(std::pair(0, Kind::kAbort), std::pair(2, Kind::kAbort)));
  run.end(1, kExitFailed, FailureKind::kInternal);
  run.end(0, kExitFailed, FailureKind::kCommunication);
  run.end(2, kExitFailed, FailureKind::kCommunication);
  ASSERT_TRUE(run->finished());
  EXPECT_THAT(run->result().report, HasSubstr("rank 2 on host1 failed first: bad"));
  EXPECT_THAT(run->result().report, HasSubstr("0-1,4-5 lost contact"));
}

TEST(Coordinator, ANodeThatDoesNotSayHowItEndedIsNotWaitedForForEver) {
  Scene run({.min_nodes = 2, .max_nodes = 2, .stop_seconds = 60, .abort_seconds = 20});
  for (int node : {0, 1}) run.join(node);
  run.told();
  run.fail(0);
  run.end(0, kExitFailed, FailureKind::kInternal);
  run.pass(19);
  EXPECT_FALSE(run->finished());
  run.pass(1);
  ASSERT_TRUE(run->finished());
  EXPECT_THAT(run->result().report, HasSubstr("rank 0 on host0 failed first: bad"));
  EXPECT_THAT(run.told(),
              ElementsAre(std::pair(1, Kind::kAbort), std::pair(1, Kind::kFinish), std::pair(0, Kind::kFinish)));
}

TEST(Coordinator, WhereThisProcessStoodStillTheOthersGetTheirTimeAgain) {
  Scene run({.min_nodes = 2, .max_nodes = 2, .abort_seconds = 20});
  for (int node : {0, 1}) run.join(node);
  run.told();
  run.fail(0);
  run.end(0, kExitFailed, FailureKind::kInternal);
  run.leap(3600);
  run.pass(19);
  EXPECT_FALSE(run->finished());
  run.pass(1);
  EXPECT_TRUE(run->finished());
}

TEST(Coordinator, ANodeThatIsBusyWithItsDataIsWaitedFor) {
  Scene run({.min_nodes = 2, .max_nodes = 2, .abort_seconds = 20});
  for (int node : {0, 1}) run.join(node);
  run->take_orders();
  run->started(0, 0);
  run.fail(0);
  run.end(0, kExitFailed, FailureKind::kInternal);
  run.pass(3600);
  EXPECT_FALSE(run->finished());
  run.end(1, kExitPreempted);
  EXPECT_TRUE(run->finished());
}

TEST(Coordinator, ASecondSignalAtALauncherThatOnlyWaitsEndsTheWaiting) {
  Scene run({.min_nodes = 2, .max_nodes = 2, .stop_seconds = 3600, .abort_seconds = 20});
  for (int node : {0, 1}) run.join(node);
  run.told();
  run.signal(0, SIGTERM);
  run.end(0, kExitPreempted);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(1, Kind::kStop)));
  run.signal(0, SIGTERM, /*at_once=*/true);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(1, Kind::kKill)));
  run.pass(20);
  EXPECT_TRUE(run->finished());
}

TEST(Coordinator, RestartsAsOftenAsAllowedWithLongerPauses) {
  Scene run(fixed(1, 2));
  run.join(0);
  run.told();
  run.end(0, kExitFailed, FailureKind::kInternal);
  EXPECT_THAT(run.told(), IsEmpty());
  run.pass(1);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(0, Kind::kStart)));
  EXPECT_EQ(run.starts[0].number, 1);
  run.end(0, kExitFailed, FailureKind::kInternal);
  run.pass(1.5);
  EXPECT_THAT(run.told(), IsEmpty());
  run.pass(0.5);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(0, Kind::kStart)));
  run.end(0, kExitFailed, FailureKind::kInternal);
  EXPECT_EQ(run->result().exit_code, kExitFailed);
  EXPECT_THAT(run.said, ::testing::Contains(HasSubstr("restart 2 of 2")));
}

TEST(Coordinator, ARollbackStartsTheNextAttemptAtOnceAndIsNoRestartAfterAFailure) {
  Scene run(fixed(2));
  for (const int node : {0, 1}) run.join(node);
  for (int attempt = 0; attempt < 5; ++attempt) {
    EXPECT_THAT(run.told(), ElementsAre(std::pair(0, Kind::kStart), std::pair(1, Kind::kStart)));
    EXPECT_EQ(run.starts[1].number, attempt);
    run.roll_back(1);
    EXPECT_THAT(run.told(), IsEmpty());
    run.roll_back(0);
  }
  run.told();
  run.end(0, kExitDone);
  run.end(1, kExitDone);
  EXPECT_EQ(run->result().exit_code, kExitDone);
}

TEST(Coordinator, ARollbackBesideAFailureIsTheFailure) {
  Scene run(fixed(2));
  for (const int node : {0, 1}) run.join(node);
  run.told();
  run.roll_back(1);
  run.end(0, kExitFailed, FailureKind::kUser);
  EXPECT_EQ(run->result().exit_code, kExitFailed);
}

TEST(Coordinator, ARunThatIsToStopIsNotRolledBackAnyMore) {
  Scene run(fixed(1));
  run.join(0);
  run.told();
  run.signal(0, SIGTERM);
  run.roll_back(0);
  EXPECT_EQ(run->result().exit_code, kExitPreempted);
}

TEST(Coordinator, WhatARestartCannotCureIsNotTriedAgain) {
  Scene mistake(fixed(1, 5));
  mistake.join(0);
  mistake.end(0, kExitUsage, FailureKind::kUser);
  EXPECT_EQ(mistake->result().exit_code, kExitUsage);

  Scene not_finite(fixed(1, 5));
  not_finite.join(0);
  not_finite.end(0, kExitFailed, FailureKind::kUser);
  EXPECT_TRUE(not_finite->finished());
}

TEST(Coordinator, MemoryAndRanksThatDifferAreTriedAgainButNotTwiceAtTheSameStep) {
  for (const auto kind : {FailureKind::kMemory, FailureKind::kReplicas}) {
    Scene run(fixed(1, 5));
    run.join(0);
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

TEST(Coordinator, ALostNodeEndsTheOthersAndIsNamed) {
  Scene run(fixed(2));
  run.join(0);
  run.join(1);
  run.told();
  run.lose(1);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(0, Kind::kAbort)));
  run.end(0, kExitFailed, FailureKind::kCommunication);
  EXPECT_THAT(run->result().report, HasSubstr("node 1 (host1) is lost: gone"));
  EXPECT_EQ(run->result().exit_code, kExitFailed);
}

TEST(Coordinator, AFixedWorldWaitsForTheLostNodesReturn) {
  Scene run(fixed(2, 1));
  run.join(0);
  run.join(1);
  run.lose(1);
  run.end(0, kExitFailed, FailureKind::kCommunication);
  EXPECT_THAT(run.said.back(), HasSubstr("it needs 1 node more, restarted within 600 s"));
  run.told();
  run.pass(30);
  EXPECT_THAT(run.told(), IsEmpty());
  run.join(5);
  EXPECT_THAT(run.told(), UnorderedElementsAre(std::pair(0, Kind::kStart), std::pair(5, Kind::kStart)));
}

TEST(Coordinator, OfManyHostsItNamesTheFirst) {
  Scene run(fixed(1000));
  for (int node = 0; node < 1000; ++node) run.join(node);
  EXPECT_EQ(run.worlds.back(), (std::pair{2000, 1000}));
  EXPECT_THAT(run.said.back(), HasSubstr("host15 (2), and 984 more"));
}

TEST(Coordinator, ASignalStopsAFixedWorldEverywhere) {
  Scene run(fixed(2, 5));
  run.join(0);
  run.join(1);
  run.told();
  run.signal(1, SIGTERM);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(0, Kind::kStop)));
  run.end(0, kExitPreempted);
  run.end(1, kExitPreempted);
  EXPECT_EQ(run->result().exit_code, kExitPreempted);
}

TEST(Coordinator, ASignalWhileItWaitsEndsTheRun) {
  Scene run(fixed(2));
  run.join(0);
  run.signal(0, SIGTERM);
  EXPECT_EQ(run->result().exit_code, kExitSignalBase + SIGTERM);
}

TEST(Coordinator, ARunFolderThatCannotBeMadeEndsTheRun) {
  Scene run(fixed(1));
  run.refusal = "the disk is full";
  run.join(0);
  EXPECT_EQ(run->result().exit_code, kExitUsage);
  EXPECT_THAT(run->result().report, HasSubstr("the disk is full"));
}

TEST(Coordinator, ARunThatHasBegunAndCannotGoOnHasFailed) {
  Scene run(fixed(1, 1));
  run.join(0);
  run.refusal = "the disk is full";
  run.end(0, kExitFailed, FailureKind::kInternal);
  run.pass(1);
  EXPECT_EQ(run->result().exit_code, kExitFailed);
  EXPECT_THAT(run->result().report, HasSubstr("the disk is full"));
}

TEST(Coordinator, WhoComesAfterTheEndIsToldSo) {
  Scene run(fixed(1));
  run.join(0);
  run.end(0, kExitDone);
  run.told();
  run.join(1);
  run.told();
  EXPECT_THAT(run.finishes[1].text, HasSubstr("over"));
}

}  // namespace
}  // namespace ddprun
