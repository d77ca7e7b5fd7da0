// SPDX-License-Identifier: MIT
// What stops with an error instead of a hang or a run of the wrong size.
#include "cluster/environments.h"
#include "cluster/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

// torch's variables, set by a script.
Variables by_hand(const std::string& rank, const std::string& world_size, const std::string& local_rank) {
  return {{"RANK", rank},           {"WORLD_SIZE", world_size}, {"LOCAL_RANK", local_rank},
          {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"},   {"LOCAL_WORLD_SIZE", "2"}};
}

auto contradicts(const std::string& one, const std::string& other) {
  return HasSubstr(one + " and " + other + " contradict each other: ");
}

TEST(Contradiction, RankAgainstMpisRank) {
  EXPECT_THAT(refusal(with(openmpi(), by_hand("0", "2", "1"))), contradicts("RANK=0", "OMPI_COMM_WORLD_RANK=1"));
  EXPECT_THAT(refusal(with(openmpi(), {{"RANK", "0"}})), contradicts("RANK=0", "OMPI_COMM_WORLD_RANK=1"));
  EXPECT_THAT(refusal(with(mpich(), by_hand("0", "2", "1"))), contradicts("RANK=0", "PMI_RANK=1"));
  EXPECT_EQ(refusal(with(openmpi(), by_hand("1", "2", "1"))), "");
}

TEST(Contradiction, WorldSizeAgainstSlurmsTasks) {
  EXPECT_THAT(refusal(with(slurm_tasks(), {{"WORLD_SIZE", "8"}})),
              contradicts("WORLD_SIZE=8", "SLURM_STEP_NUM_TASKS=4"));
  EXPECT_THAT(refusal(with(slurm_nodes(), {{"WORLD_SIZE", "8"}})),
              contradicts("WORLD_SIZE=8", "SLURM_STEP_NUM_TASKS=2"));
  EXPECT_THAT(refusal(with(slurm_tasks(), by_hand("0", "1", "0"))),
              contradicts("WORLD_SIZE=1", "SLURM_STEP_NUM_TASKS=4"));
  EXPECT_EQ(refusal(with(slurm_tasks(), {{"WORLD_SIZE", "4"},
                                         {"RANK", "2"},
                                         {"LOCAL_RANK", "0"},
                                         {"MASTER_ADDR", "gpu03"},
                                         {"MASTER_PORT", "29500"},
                                         {"LOCAL_WORLD_SIZE", "2"}})),
            "");
}

TEST(Contradiction, RankAndLocalRankAgainstSlurms) {
  EXPECT_THAT(refusal(with(slurm_tasks(), {{"RANK", "0"}})), contradicts("RANK=0", "SLURM_PROCID=2"));
  EXPECT_THAT(refusal(with(slurm_tasks(), {{"LOCAL_RANK", "1"}})), contradicts("LOCAL_RANK=1", "SLURM_LOCALID=0"));
}

TEST(Contradiction, MpiAgainstSlurm) {
  EXPECT_THAT(refusal(with(slurm_tasks(), openmpi())), contradicts("OMPI_COMM_WORLD_SIZE=2", "SLURM_STEP_NUM_TASKS=4"));
  EXPECT_THAT(refusal(with(slurm_tasks(), {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}})),
              contradicts("SLURM_PROCID=2", "PMI_RANK=0"));
}

TEST(Contradiction, NumbersThatAreNotBelowTheirLimit) {
  EXPECT_THAT(refusal(by_hand("4", "4", "0")), contradicts("RANK=4", "WORLD_SIZE=4"));
  EXPECT_THAT(refusal(by_hand("1", "4", "2")), contradicts("LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"));
  EXPECT_THAT(refusal(with(by_hand("1", "4", "2"), {{"LOCAL_WORLD_SIZE", "8"}})),
              contradicts("LOCAL_WORLD_SIZE=8", "WORLD_SIZE=4"));
  EXPECT_THAT(refusal(with(kubeflow(), {{"RANK", "3"}})), contradicts("RANK=3", "WORLD_SIZE=3"));
  EXPECT_THAT(refusal(with(slurm_tasks(), {{"SLURM_PROCID", "4"}})),
              contradicts("SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=4"));
  EXPECT_THAT(refusal(with(slurm_tasks(), {{"SLURM_LOCALID", "2"}})),
              contradicts("SLURM_LOCALID=2", "SLURM_STEP_TASKS_PER_NODE[1]=2"));
  EXPECT_THAT(refusal(with(slurm_tasks(), {{"SLURM_STEP_TASKS_PER_NODE", "4"}})),
              contradicts("SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=4"));
  EXPECT_THAT(refusal({{"PET_NNODES", "2"}, {"PET_NODE_RANK", "2"}, {"PET_RDZV_ENDPOINT", "w0"}}),
              contradicts("PET_NODE_RANK=2", "PET_NNODES=2"));
}

TEST(Contradiction, MasterAddressAwayFromRankZero) {
  for (const auto* address : {"gpu04", "localhost", "127.0.0.1"}) {
    EXPECT_THAT(refusal(with(slurm_nodes(), {{"MASTER_ADDR", address}})),
                contradicts(std::string("MASTER_ADDR=") + address, "SLURM_STEP_NODELIST=gpu[03-04]"));
  }
  EXPECT_THAT(refusal(with(slurm_tasks(), {{"SLURM_PROCID", "0"}})), contradicts("SLURM_PROCID=0", "SLURM_NODEID=1"));
}

TEST(Contradiction, PodsCountedInTwoWays) {
  const auto pods = with(kubeflow(), {{"PET_NNODES", "3"}, {"PET_NPROC_PER_NODE", "4"}});
  EXPECT_THAT(refusal(with(pods, {{"WORLD_SIZE", "6"}})), contradicts("WORLD_SIZE=6", "PET_NNODES=3"));
  EXPECT_THAT(refusal(with(pods, {{"PET_NODE_RANK", "2"}})), contradicts("RANK=1", "PET_NODE_RANK=2"));
}

TEST(Contradiction, FlagsBesideAnEngineThatStartedEveryRank) {
  const LaunchFlags nnodes{.nnodes = Setting{"--nnodes", "2"}};
  EXPECT_THAT(refusal(torchrun(), nnodes),
              AllOf(contradicts("--nnodes=2", "WORLD_SIZE=4"), HasSubstr("torchrun has started")));
  EXPECT_THAT(refusal(slurm_tasks(), nnodes), contradicts("--nnodes=2", "SLURM_STEP_NUM_TASKS=4"));
  EXPECT_THAT(refusal(openmpi(), nnodes), contradicts("--nnodes=2", "OMPI_COMM_WORLD_SIZE=2"));
  EXPECT_THAT(refusal(mpich(), {.standalone = Setting{"--standalone", ""}}), contradicts("--standalone", "PMI_SIZE=2"));
  EXPECT_THAT(refusal(torchrun(), {.max_restarts = Setting{"--max-restarts", "3"}}), HasSubstr("leave the flag out"));
}

TEST(Contradiction, FlagsBesideNodesThatAreCountedOtherwise) {
  EXPECT_THAT(refusal(slurm_nodes(), {.nnodes = Setting{"--nnodes", "3"}}),
              contradicts("--nnodes=3", "SLURM_STEP_NUM_NODES=2"));
  EXPECT_THAT(refusal(slurm_nodes(), {.node_rank = Setting{"--node-rank", "0"}}),
              contradicts("--node-rank=0", "SLURM_NODEID=1"));
  EXPECT_THAT(refusal(kubeflow(), {.nnodes = Setting{"--nnodes", "2"}}), contradicts("--nnodes=2", "WORLD_SIZE=3"));
  EXPECT_THAT(refusal(slurm_nodes(), {.standalone = Setting{"--standalone", ""}}),
              contradicts("--standalone", "SLURM_STEP_NUM_NODES=2"));
}

TEST(Missing, WhatAnEngineSetsInPairs) {
  EXPECT_THAT(refusal({{"RANK", "1"}}), HasSubstr("RANK=1, but WORLD_SIZE is not set"));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_RANK", "1"}}), HasSubstr("OMPI_COMM_WORLD_SIZE is not set"));
  EXPECT_THAT(refusal({{"PMI_RANK", "1"}}), HasSubstr("PMI_SIZE is not set"));
  EXPECT_THAT(refusal({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), HasSubstr("MPI_LOCALRANKID is not set"));
  EXPECT_THAT(refusal(with(slurm_tasks(), {{"SLURM_NODEID", ""}})), HasSubstr("SLURM_NODEID is not set"));
}

TEST(Missing, AddressWhereItIsNeeded) {
  EXPECT_THAT(refusal(with(torchrun(), {{"MASTER_ADDR", ""}})), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(refusal(with(torchrun(), {{"MASTER_PORT", ""}})), HasSubstr("MASTER_PORT is not set"));
  EXPECT_THAT(refusal(with(kubeflow(), {{"MASTER_ADDR", ""}})),
              HasSubstr("WORLD_SIZE=3, but where do the nodes meet?"));
  EXPECT_THAT(refusal({{"PET_NNODES", "2"}}), HasSubstr("PET_NNODES=2, but where do the nodes meet?"));
  EXPECT_THAT(refusal(with(slurm_nodes(), {{"SLURM_STEP_NODELIST", ""}, {"SLURM_JOB_NODELIST", ""}})),
              HasSubstr("SLURM_STEP_NODELIST is not set"));
}

TEST(Malformed, NumbersAreToldWithNameValueAndWhatWasExpected) {
  for (const auto* value : {"two", "2x", "-1", "+2", " 2", "2.0", "99999999999"}) {
    EXPECT_THAT(refusal(with(torchrun(), {{"RANK", value}})),
                HasSubstr(std::string("RANK=") + value + ": expected a whole number of at least 0"));
  }
  EXPECT_THAT(refusal(with(torchrun(), {{"WORLD_SIZE", "0"}})),
              HasSubstr("WORLD_SIZE=0: expected a whole number of at least 1"));
  EXPECT_THAT(refusal(with(torchrun(), {{"MASTER_PORT", "70000"}})),
              HasSubstr("MASTER_PORT=70000: expected a whole number from 1 to 65535"));
  EXPECT_THAT(refusal(with(torchrun(), {{"MASTER_ADDR", "node1:29500"}})), HasSubstr("expected a host without a port"));
  EXPECT_THAT(refusal(with(slurm_nodes(), {{"SLURM_RESTART_COUNT", "often"}})), HasSubstr("SLURM_RESTART_COUNT=often"));
  EXPECT_THAT(refusal({{"PET_NNODES", "4:2"}}), HasSubstr("PET_NNODES=4:2: expected N or MIN:MAX"));
  EXPECT_THAT(refusal({{"PET_NPROC_PER_NODE", "all"}}), HasSubstr("expected a number of at least 1, auto, gpu or cpu"));
}

}  // namespace
}  // namespace ddprun
