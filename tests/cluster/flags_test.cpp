// SPDX-License-Identifier: MIT
// The flags alone, and beside an engine that leaves room for them.
#include "cluster/environments.h"
#include "cluster/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace testing;
using ::testing::HasSubstr;

const Setting kNodes{"--nnodes", "2"}, kEndpoint{"--rdzv-endpoint", "node1:1234"};

TEST(Flags, SayAllThatTorchrunsDo) {
  const auto placement = place({}, {.nnodes = Setting{"--nnodes", "2:4"},
                                    .nproc_per_node = Setting{"--nproc-per-node", "8"},
                                    .rdzv_endpoint = kEndpoint,
                                    .rdzv_id = Setting{"--rdzv-id", "mnist"},
                                    .rdzv_backend = Setting{"--rdzv-backend", "c10d"},
                                    .max_restarts = Setting{"--max-restarts", "3"}});
  EXPECT_EQ(placement.engine, Engine::kFlags);
  EXPECT_EQ(placement.role, Role::kNode);
  EXPECT_EQ(placement.min_nodes, 2);
  EXPECT_EQ(placement.max_nodes, 4);
  EXPECT_EQ(placement.node_rank, std::nullopt);
  EXPECT_EQ(placement.workers, "8");
  EXPECT_EQ(placement.host, "node1");
  EXPECT_EQ(placement.port, 1234);
  EXPECT_EQ(placement.job_id, "mnist");
  EXPECT_EQ(placement.max_restarts, 3);
}

TEST(Flags, AddressInTwoPartsIsTheEndpoint) {
  const Setting address{"--master-addr", "node1"}, port{"--master-port", "1234"};
  EXPECT_EQ(place({}, {.nnodes = kNodes, .master_addr = address, .master_port = port}).port, 1234);
  EXPECT_EQ(place({}, {.nnodes = kNodes, .master_addr = address}).port, 29500) << "torchrun's default";
  EXPECT_EQ(place({}, {.nnodes = kNodes, .rdzv_endpoint = Setting{"--rdzv-endpoint", "node1"}}).port, 29400);
  EXPECT_EQ(refusal({}, {.nnodes = kNodes, .rdzv_endpoint = kEndpoint, .master_addr = address, .master_port = port}),
            "");
  EXPECT_THAT(
      refusal({}, {.nnodes = kNodes, .rdzv_endpoint = kEndpoint, .master_addr = Setting{"--master-addr", "node2"}}),
      HasSubstr("--rdzv-endpoint=node1:1234 and --master-addr=node2 contradict"));
  EXPECT_THAT(refusal({}, {.nnodes = kNodes, .rdzv_endpoint = kEndpoint, .master_port = Setting{"--master-port", "1"}}),
              HasSubstr("--rdzv-endpoint=node1:1234 and --master-port=1 contradict"));
}

TEST(Flags, AddressOfTheEnvironmentServesWhereNoneIsGiven) {
  const auto placement = place({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "8888"}},
                               {.nnodes = kNodes, .node_rank = Setting{"--node-rank", "1"}});
  EXPECT_EQ(placement.host, "node1");
  EXPECT_EQ(placement.port, 8888);
  EXPECT_EQ(placement.node_rank, 1);
  EXPECT_EQ(place({{"MASTER_ADDR", "node9"}}, {.nnodes = kNodes, .rdzv_endpoint = kEndpoint}).host, "node1");
}

TEST(Flags, ANodesRankCountsWhereNodesComeAndGoToo) {
  LaunchFlags flags{
      .nnodes = Setting{"--nnodes", "1:2"}, .node_rank = Setting{"--node-rank", "1"}, .rdzv_endpoint = kEndpoint};
  EXPECT_EQ(place({}, flags).node_rank, 1);
  flags.node_rank->value = "2";
  EXPECT_THAT(refusal({}, flags), HasSubstr("--node-rank=2 and --nnodes=2 contradict"));
}

TEST(Flags, SeveralNodesWithoutAnAddressAreRefused) {
  EXPECT_THAT(refusal({}, {.nnodes = kNodes}), HasSubstr("--nnodes=2, but where do the nodes meet?"));
  EXPECT_THAT(refusal({}, {.nnodes = kNodes, .standalone = Setting{"--standalone", ""}}),
              HasSubstr("--standalone and --nnodes=2 contradict"));
  EXPECT_THAT(refusal({}, {.node_rank = Setting{"--node-rank", "1"}}),
              HasSubstr("--node-rank=1 and --nnodes=1 contradict"));
}

TEST(Flags, OneNodeMeetsNobody) {
  const auto placement = place({}, {.nnodes = Setting{"--nnodes", "1"},
                                    .nproc_per_node = Setting{"--nproc-per-node", "2"},
                                    .rdzv_endpoint = Setting{"--rdzv-endpoint", "localhost:0"},
                                    .standalone = Setting{"--standalone", ""}});
  EXPECT_EQ(placement.engine, Engine::kFlags);
  EXPECT_EQ(placement.host, "");
  EXPECT_EQ(placement.workers, "2");
  EXPECT_THAT(meaning(placement, "--rdzv-endpoint", false), HasSubstr("meets nobody"));
}

TEST(Flags, OtherBackendsAreRefusedWithAWord) {
  EXPECT_EQ(refusal({}, {.rdzv_backend = Setting{"--rdzv-backend", "static"}}), "");
  EXPECT_THAT(refusal({}, {.rdzv_backend = Setting{"--rdzv-backend", "etcd"}}), HasSubstr("etcd is not supported"));
  EXPECT_EQ(refusal({{"PET_RDZV_BACKEND", "etcd"}}), "") << "of no effect on one node";
  EXPECT_THAT(refusal({{"PET_RDZV_BACKEND", "etcd"}, {"PET_NNODES", "2"}, {"PET_RDZV_ENDPOINT", "w0"}}),
              HasSubstr("PET_RDZV_BACKEND=etcd"));
}

TEST(Flags, ComeBeforePetVariables) {
  const Variables pet{{"PET_NNODES", "2"}, {"PET_RDZV_ENDPOINT", "w0:1"}, {"PET_NPROC_PER_NODE", "4"}};
  const auto placement = place(
      pet, {.nproc_per_node = Setting{"--nproc-per-node", "2"}, .master_addr = Setting{"--master-addr", "node1"}});
  EXPECT_EQ(placement.max_nodes, 2);
  EXPECT_EQ(placement.workers, "2");
  EXPECT_EQ(placement.host, "node1");
  EXPECT_EQ(placement.port, 29500);
  EXPECT_EQ(meaning(placement, "PET_NPROC_PER_NODE", false), "the flags take precedence");
}

TEST(Flags, SayTheWorkersOfASlurmNode) {
  const auto placement = place(slurm_nodes(), {.nnodes = kNodes,
                                               .nproc_per_node = Setting{"--nproc-per-node", "2"},
                                               .max_restarts = Setting{"--max-restarts", "1"}});
  EXPECT_EQ(placement.engine, Engine::kSlurm);
  EXPECT_EQ(placement.workers, "2");
  EXPECT_EQ(placement.node_rank, 1);
  EXPECT_EQ(placement.host, "gpu03");
  EXPECT_EQ(placement.max_restarts, 1);
}

TEST(Flags, SayWhereSlurmsNodesMeet) {
  EXPECT_EQ(place(slurm_nodes(), {.rdzv_endpoint = kEndpoint}).host, "node1");
  const auto placement = place(slurm_nodes(), {.master_port = Setting{"--master-port", "1234"}});
  EXPECT_EQ(placement.host, "gpu03");
  EXPECT_EQ(placement.port, 1234);
}

TEST(Flags, SayTheWorkersOfAPod) {
  EXPECT_EQ(place(kubeflow(), {.nproc_per_node = Setting{"--nproc-per-node", "2"}}).workers, "2");
}

TEST(Flags, TakeNoNameOfAJobFromSlurmWhereOneIsGiven) {
  EXPECT_EQ(place(slurm_nodes(), {.rdzv_id = Setting{"--rdzv-id", "mnist"}}).job_id, "mnist");
}

}  // namespace
}  // namespace ddprun
