// SPDX-License-Identifier: MIT
// Nodes that leave and come in a run of MIN:MAX.
#include "rendezvous/coordinator.h"
#include "rendezvous/scene.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace ddprun {
namespace {

using testing::elastic;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Scene;
using ::testing::UnorderedElementsAre;
using Kind = Order::Kind;

TEST(Coordinator, AnElasticWorldGoesOnWithWhoIsLeft) {
  Scene run(elastic(1, 3));
  for (int node : {0, 1, 2}) run.join(node);
  run.lose(2);
  run.end(0, kExitFailed, FailureKind::kCommunication);
  run.end(1, kExitFailed, FailureKind::kCommunication);
  run.told();
  run.pass(9);
  EXPECT_THAT(run.told(), IsEmpty()) << "the last call";
  run.pass(1);
  EXPECT_THAT(run.told(), UnorderedElementsAre(std::pair(0, Kind::kStart), std::pair(1, Kind::kStart)));
  EXPECT_THAT(run.worlds, ElementsAre(std::pair(6, 3), std::pair(4, 2)));
}

TEST(Coordinator, AnElasticWorldTakesInWhoComes) {
  Scene run(elastic(1, 2));
  run.join(0);
  run.pass(10);
  run.told();
  run.join(1);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(0, Kind::kStop)));
  run.end(0, kExitPreempted);
  EXPECT_THAT(run.told(), UnorderedElementsAre(std::pair(0, Kind::kStart), std::pair(1, Kind::kStart)));
}

TEST(Coordinator, APreemptedNodeLeavesAndTheOthersGoOn) {
  Scene run(elastic(1, 2));
  run.join(0);
  run.join(1);
  run.told();
  run.signal(1, SIGTERM);
  EXPECT_THAT(run.told(), ElementsAre(std::pair(0, Kind::kStop)));
  run.end(0, kExitPreempted);
  run.end(1, kExitPreempted);
  run.pass(10);
  EXPECT_THAT(run.told(), UnorderedElementsAre(std::pair(1, Kind::kFinish), std::pair(0, Kind::kStart)));
  EXPECT_EQ(run.finishes[1].exit_code, kExitPreempted);
}

TEST(Coordinator, ANodeThatLeavesAndIsThenLostIsMissingOnce) {
  Scene run(elastic(2, 4));
  for (const int node : {0, 1, 2, 3}) run.join(node);
  run.told();
  run.signal(3, SIGTERM);
  run.lose(3);
  for (const int node : {0, 1, 2}) run.end(node, kExitPreempted);
  run.pass(11);
  EXPECT_EQ(run.worlds.back(), (std::pair{6, 3}));
  run.signal(2, SIGTERM);  // two are enough: the others go on without it
  for (const int node : {0, 1, 2}) run.end(node, kExitPreempted);
  run.pass(11);
  EXPECT_EQ(run.worlds.back(), (std::pair{4, 2}));
}

TEST(Coordinator, CtrlCStopsAnElasticWorldToo) {
  Scene run(elastic(1, 2));
  run.join(0);
  run.join(1);
  run.signal(1, SIGINT);
  run.end(0, kExitPreempted);
  run.end(1, kExitPreempted);
  EXPECT_EQ(run->result().exit_code, kExitPreempted);
}

}  // namespace
}  // namespace ddprun
