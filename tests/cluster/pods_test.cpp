// SPDX-License-Identifier: MIT
// Kubernetes: pods of Kubeflow, with torchrun's variables and without.
#include "cluster/environments.h"
#include "cluster/placement.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace testing;

TEST(Kubeflow, PodsAreNodes) {
  const auto placement = place(kubeflow());
  EXPECT_EQ(placement.engine, Engine::kKubeflow);
  EXPECT_EQ(placement.role, Role::kNode);
  EXPECT_EQ(placement.max_nodes, 3);
  EXPECT_EQ(placement.node_rank, 1);
  EXPECT_EQ(placement.workers, "");
  EXPECT_EQ(placement.host, "mnist-master-0");
  EXPECT_EQ(placement.port, 23456);
  EXPECT_EQ(place(with(kubeflow(), {{"RANK", "0"}, {"WORLD_SIZE", "1"}})).engine, Engine::kNobody);
}

TEST(Kubeflow, NewerOperatorsCountTheWorkersOfAllPods) {
  const auto pods = with(kubeflow(), {{"WORLD_SIZE", "12"},
                                      {"PET_NNODES", "3"},
                                      {"PET_NPROC_PER_NODE", "4"},
                                      {"PET_NODE_RANK", "1"},
                                      {"PET_MASTER_ADDR", "mnist-master-0"},
                                      {"PET_MASTER_PORT", "23456"}});
  const auto placement = place(pods);
  EXPECT_EQ(placement.engine, Engine::kKubeflow);
  EXPECT_EQ(placement.max_nodes, 3);
  EXPECT_EQ(placement.workers, "4");
  EXPECT_EQ(place(with(pods, {{"WORLD_SIZE", "3"}, {"PET_NPROC_PER_NODE", "auto"}})).workers, "auto");
}

TEST(Pet, IsWhatTorchrunWouldRead) {
  const auto placement = place({{"PET_NNODES", "2:4"},
                                {"PET_N_PROC_PER_NODE", "8"},
                                {"PET_RDZV_ENDPOINT", "mnist-worker-0:23456"},
                                {"PET_RDZV_BACKEND", "c10d"},
                                {"PET_RDZV_ID", "mnist"},
                                {"PET_MAX_RESTARTS", "5"}});
  EXPECT_EQ(placement.engine, Engine::kPet);
  EXPECT_EQ(placement.min_nodes, 2);
  EXPECT_EQ(placement.max_nodes, 4);
  EXPECT_EQ(placement.node_rank, std::nullopt);
  EXPECT_EQ(placement.workers, "8");
  EXPECT_EQ(placement.host, "mnist-worker-0");
  EXPECT_EQ(placement.port, 23456);
  EXPECT_EQ(placement.job_id, "mnist");
  EXPECT_EQ(placement.max_restarts, 5);
}

TEST(Pet, OfATrainJobHasTheNodesNumber) {
  const auto placement = place({{"PET_NNODES", "2"},
                                {"PET_NPROC_PER_NODE", "gpu"},
                                {"PET_NODE_RANK", "1"},
                                {"PET_MASTER_ADDR", "mnist-node-0"},
                                {"PET_MASTER_PORT", "29400"}});
  EXPECT_EQ(placement.node_rank, 1);
  EXPECT_EQ(placement.workers, "gpu");
  EXPECT_EQ(placement.host, "mnist-node-0");
}

TEST(Pet, OneNodeWithNothingSaidOfItsWorkersIsNobodys) {
  EXPECT_EQ(place({{"PET_NNODES", "1"}, {"PET_STANDALONE", "1"}, {"PET_MAX_RESTARTS", "2"}}).engine, Engine::kNobody);
  EXPECT_EQ(place({{"PET_NNODES", "1"}, {"PET_MAX_RESTARTS", "2"}}).max_restarts, 2);
}

TEST(Pet, ElasticPodsOfAJobWithAMasterAreNumberedWhereTheyMeet) {
  const auto placement =
      place(with(kubeflow(), {{"PET_NNODES", "1:2"}, {"PET_RDZV_ENDPOINT", "w0:1234"}, {"RANK", "2"}}));
  EXPECT_EQ(placement.node_rank, std::nullopt);
  EXPECT_EQ(placement.host, "w0");
}

}  // namespace
}  // namespace ddprun
