// SPDX-License-Identifier: MIT
// One engine after the other, each with the environment that it makes.
#include "cluster/endpoint.h"
#include "cluster/environments.h"
#include "cluster/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(Nobody, IsOneNodeWithTheExperimentsWorkers) {
  const auto placement = place({});
  EXPECT_EQ(placement.engine, Engine::kNobody);
  EXPECT_EQ(placement.role, Role::kNode);
  EXPECT_EQ(placement.max_nodes, 1);
  EXPECT_EQ(placement.node_rank, 0);
  EXPECT_EQ(placement.workers, "");
  EXPECT_EQ(placement.host, "");
  EXPECT_TRUE(placement.evidence.empty());
}

TEST(Nobody, StrayVariablesOfAShellAreNamedAndIgnored) {
  const auto placement = place({{"NODE_RANK", "3"}, {"MASTER_ADDR", "node9"}, {"WORLD_SIZE", "many"}, {"RANK", ""}});
  EXPECT_EQ(placement.engine, Engine::kNobody);
  EXPECT_EQ(placement.host, "");
  EXPECT_EQ(meaning(placement, "NODE_RANK", false), "it says nothing by itself");
  EXPECT_EQ(meaning(placement, "WORLD_SIZE", false), "it says nothing by itself");
  EXPECT_EQ(meaning(placement, "MASTER_ADDR", false), "a single node meets nobody");
  EXPECT_EQ(placement.evidence.size(), 3);
}

TEST(Torchrun, RanksAreToldHowManyRunsTheirScriptHasStartedBefore) {
  EXPECT_EQ(place(torchrun()).earlier_runs, 0);
  const auto placement = place(with(torchrun(), {{"DDPRUN_EARLIER_RUNS", "2"}}));
  EXPECT_EQ(placement.earlier_runs, 2);
  EXPECT_NE(meaning(placement, "DDPRUN_EARLIER_RUNS", true), "");
  EXPECT_THAT(refusal({{"DDPRUN_EARLIER_RUNS", "some"}}), HasSubstr("DDPRUN_EARLIER_RUNS=some"));
}

TEST(Torchrun, IsARankWithTheAgentsStore) {
  const auto placement = place(torchrun());
  EXPECT_EQ(placement.engine, Engine::kTorchrun);
  EXPECT_EQ(placement.role, Role::kRank);
  EXPECT_EQ(placement.rank, 2);
  EXPECT_EQ(placement.world_size, 4);
  EXPECT_EQ(placement.local_rank, 0);
  EXPECT_EQ(placement.local_world_size, 2);
  EXPECT_EQ(placement.host, "node1");
  EXPECT_EQ(placement.port, 29400);
  EXPECT_TRUE(placement.agent_store);
  EXPECT_EQ(placement.job_id, "mnist-7");
  EXPECT_EQ(placement.restart_count, 1);
  EXPECT_TRUE(placement.engine_restarts);
  EXPECT_EQ(placement.error_file, "/tmp/error.json");
  EXPECT_EQ(meaning(placement, "RANK", true), "the rank of this process");
}

TEST(Torchrun, DefaultRunIdIsNoName) {
  EXPECT_EQ(place(with(torchrun(), {{"TORCHELASTIC_RUN_ID", "none"}})).job_id, "");
  EXPECT_FALSE(place(with(torchrun(), {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).agent_store);
}

TEST(Torchrun, WinsInsideASlurmStepOfOneTaskPerNode) {
  const auto placement = place(with(slurm_nodes(), torchrun()));
  EXPECT_EQ(placement.engine, Engine::kTorchrun);
  EXPECT_EQ(placement.rank, 2);
  EXPECT_EQ(placement.job_id, "mnist-7");
  EXPECT_EQ(place(with(slurm_nodes(), with(torchrun(), {{"SLURM_RESTART_COUNT", "5"}}))).restart_count, 1);
  EXPECT_THAT(meaning(placement, "SLURM_PROCID", false), HasSubstr("torchrun takes precedence"));
  // One worker per node: as many ranks as tasks, numbered otherwise.
  const auto single =
      with(slurm_nodes(), with(torchrun(), {{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}));
  EXPECT_EQ(place(single).rank, 0);
}

TEST(Torchrun, WithoutANameIsTheSlurmJobs) {
  EXPECT_EQ(place(with(slurm_nodes(), with(torchrun(), {{"TORCHELASTIC_RUN_ID", "none"}}))).job_id, "4242");
}

TEST(Torchrun, OneRankIsNobodysAndKeepsTheJob) {
  const auto placement = place(with(torchrun(), {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "1"}}));
  EXPECT_EQ(placement.engine, Engine::kNobody);
  EXPECT_EQ(placement.role, Role::kNode);
  EXPECT_EQ(placement.workers, "1");
  EXPECT_EQ(placement.host, "");
  EXPECT_EQ(placement.job_id, "mnist-7");
  EXPECT_EQ(placement.restart_count, 1);
  EXPECT_TRUE(placement.engine_restarts);
  EXPECT_EQ(placement.error_file, "/tmp/error.json");
}

TEST(Ray, IsKnownByItsVariablesAndMakesItsOwnRanks) {
  auto ray = with(torchrun(), {{"TORCHELASTIC_RUN_ID", ""}, {"NODE_RANK", "1"}, {"ACCELERATE_TORCH_DEVICE", "cuda:0"}});
  std::erase_if(ray, [](const auto& variable) { return variable.first.starts_with("TORCHELASTIC"); });
  const auto placement = place(with(slurm_nodes(), ray));
  EXPECT_EQ(placement.engine, Engine::kRay);
  EXPECT_EQ(placement.rank, 2);
  EXPECT_FALSE(placement.agent_store);
  EXPECT_FALSE(placement.engine_restarts);
}

TEST(TorchVariables, OfSomethingElseAreEnv) {
  const Variables variables{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}};
  const auto placement = place(variables);
  EXPECT_EQ(placement.engine, Engine::kEnv);
  EXPECT_EQ(placement.host, "::1");
  EXPECT_EQ(placement.local_world_size, 2) << "all meet at this machine's own address";
  EXPECT_THAT(refusal(with(variables, {{"MASTER_ADDR", "node1"}})), HasSubstr("LOCAL_WORLD_SIZE is not set"));
}

TEST(Slurm, OneTaskPerNodeStartsTheNodesWorkers) {
  const auto placement = place(slurm_nodes());
  EXPECT_EQ(placement.engine, Engine::kSlurm);
  EXPECT_EQ(placement.role, Role::kNode);
  EXPECT_EQ(placement.min_nodes, 2);
  EXPECT_EQ(placement.max_nodes, 2);
  EXPECT_EQ(placement.node_rank, 1);
  EXPECT_EQ(placement.workers, "");
  EXPECT_EQ(placement.host, "gpu03");
  EXPECT_EQ(placement.port, 20000 + (37 * 4242 + 0) % 10000);
  EXPECT_EQ(placement.job_id, "4242");
  EXPECT_EQ(meaning(placement, "SLURM_STEP_NODELIST", true), "the nodes meet at its first host, gpu03");
}

TEST(Slurm, MoreTasksThanNodesAreRanks) {
  const auto placement = place(slurm_tasks());
  EXPECT_EQ(placement.engine, Engine::kSlurm);
  EXPECT_EQ(placement.role, Role::kRank);
  EXPECT_EQ(placement.rank, 2);
  EXPECT_EQ(placement.world_size, 4);
  EXPECT_EQ(placement.local_rank, 0);
  EXPECT_EQ(placement.local_world_size, 2);
  EXPECT_EQ(placement.host, "gpu03");
}

TEST(Slurm, NodesWithUnequalTasksEachKnowTheirOwnNumber) {
  auto tasks = with(slurm_tasks(), {{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "2,1"}});
  EXPECT_EQ(place(tasks).local_world_size, 1);
  EXPECT_EQ(place(with(tasks, {{"SLURM_PROCID", "1"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "1"}})).local_world_size,
            2);
}

TEST(Slurm, WhatTheJobSaysOfTasksOnANodeIsToldAsIgnored) {
  const auto placement = place(with(slurm_tasks(), {{"SLURM_NTASKS_PER_NODE", "4"}}));
  EXPECT_EQ(placement.local_world_size, 2);
  EXPECT_THAT(meaning(placement, "SLURM_NTASKS_PER_NODE", false), HasSubstr("the step's own variables"));
}

TEST(Slurm, TasksOfOneNodeMeetAtLoopback) {
  const auto placement = place(with(slurm_tasks(), {{"SLURM_STEP_NUM_NODES", "1"},
                                                    {"SLURM_NODEID", "0"},
                                                    {"SLURM_LOCALID", "2"},
                                                    {"SLURM_STEP_NODELIST", "gpu03"},
                                                    {"SLURM_STEP_TASKS_PER_NODE", "4"},
                                                    {"MASTER_ADDR", "login1"}}));
  EXPECT_EQ(placement.host, "127.0.0.1");
  EXPECT_EQ(placement.local_world_size, 4);
  EXPECT_THAT(meaning(placement, "MASTER_ADDR", false), HasSubstr("127.0.0.1"));
}

TEST(Slurm, StepsOfOneJobHaveDifferentPorts) {
  EXPECT_NE(place(slurm_tasks()).port, place(with(slurm_tasks(), {{"SLURM_STEP_ID", "1"}})).port);
  EXPECT_EQ(place(with(slurm_tasks(), {{"SLURM_STEP_ID", "3"}, {"SLURM_JOB_ID", "67108863"}})).port,
            20000 + (37LL * 67108863 + 3) % 10000);
}

TEST(Slurm, MasterAddressAndPortOfTheScriptAreTaken) {
  const auto placement = place(with(slurm_tasks(), {{"MASTER_ADDR", "gpu03-ib"}, {"MASTER_PORT", "12355"}}));
  EXPECT_EQ(placement.host, "gpu03-ib");
  EXPECT_EQ(placement.port, 12355);
  EXPECT_EQ(place(with(slurm_nodes(), {{"MASTER_ADDR", "gpu03"}})).host, "gpu03");
}

TEST(Slurm, BatchScriptAndSallocsShellAreNotManyRanks) {
  auto script = slurm_tasks();
  script.erase("SLURM_STEP_ID");
  for (const auto& variables : {script, with(slurm_tasks(), {{"SLURM_STEP_ID", "4294967290"}})}) {
    const auto placement = place(with(variables, {{"SLURM_RESTART_COUNT", "2"}}));
    EXPECT_EQ(placement.engine, Engine::kNobody);
    EXPECT_EQ(placement.max_nodes, 1);
    EXPECT_EQ(placement.job_id, "4242");
    EXPECT_EQ(placement.restart_count, 2);
  }
  EXPECT_THAT(meaning(place(script), "SLURM_NTASKS", false), HasSubstr("only srun starts several"));
}

TEST(Slurm, TheEndOfTheJobsTimeIsKnownToWhoeverStartsProcessesInIt) {
  EXPECT_EQ(place(with(slurm_nodes(), {{"SLURM_JOB_END_TIME", "1795000000"}})).ends_at, 1'795'000'000);
  EXPECT_EQ(place(with(slurm_nodes(), with(torchrun(), {{"SLURM_JOB_END_TIME", "1795000000"}}))).ends_at,
            1'795'000'000);
  EXPECT_EQ(place(slurm_nodes()).ends_at, 0);
}

TEST(Slurm, OneTaskIsNobodys) {
  const auto placement = place(with(slurm_tasks(), {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}));
  EXPECT_EQ(placement.engine, Engine::kNobody);
  EXPECT_EQ(placement.job_id, "4242");
}

TEST(Slurm, ArrayTasksAreJobsOfTheirOwn) {
  EXPECT_EQ(place(with(slurm_nodes(), {{"SLURM_ARRAY_JOB_ID", "4240"}, {"SLURM_ARRAY_TASK_ID", "7"}})).job_id,
            "4240_7");
}

TEST(OpenMpi, RanksOfOneNodeMeetAtAPortOfTheJob) {
  const auto placement = place(openmpi());
  EXPECT_EQ(placement.engine, Engine::kOpenMpi);
  EXPECT_EQ(placement.role, Role::kRank);
  EXPECT_EQ(placement.rank, 1);
  EXPECT_EQ(placement.local_world_size, 2);
  EXPECT_EQ(placement.host, "127.0.0.1");
  EXPECT_EQ(placement.port, port_of_job("833028096.0;tcp://192.0.2.2:55715"));
  EXPECT_EQ(place(with(openmpi(), {{"MASTER_PORT", "12355"}})).port, 12355);
  EXPECT_EQ(place(with(openmpi(), {{"OMPI_MCA_orte_hnp_uri", ""}})).port, port_of_job("833028097"));
}

TEST(OpenMpi, SeveralNodesNeedAnAddress) {
  const auto nodes = with(openmpi(), {{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_THAT(refusal(nodes), HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE=2 of OMPI_COMM_WORLD_SIZE=4"));
  EXPECT_THAT(refusal(nodes), HasSubstr("mpirun -x MASTER_ADDR="));
  EXPECT_EQ(place(with(nodes, {{"MASTER_ADDR", "node1"}})).host, "node1");
}

TEST(OpenMpi, InASlurmJobItsNodesAreASlurmStep) {
  const auto nodes = with(openmpi(), {{"OMPI_COMM_WORLD_SIZE", "4"}, {"MASTER_ADDR", "gpu03"}});
  const auto placement = place(with(slurm_nodes(), nodes));
  EXPECT_EQ(placement.engine, Engine::kOpenMpi);
  EXPECT_EQ(placement.rank, 1);
  EXPECT_EQ(placement.job_id, "4242");
}

TEST(Mpich, NeedsAPort) {
  EXPECT_THAT(refusal(mpich()), HasSubstr("mpiexec -genv MASTER_PORT"));
  const auto placement = place(with(mpich(), {{"MASTER_PORT", "12355"}}));
  EXPECT_EQ(placement.engine, Engine::kMpich);
  EXPECT_EQ(placement.rank, 1);
  EXPECT_EQ(placement.local_rank, 1);
  EXPECT_EQ(placement.host, "127.0.0.1");
  EXPECT_EQ(placement.port, 12355);
}

TEST(Mpich, VariablesThatSlurmServesAreSlurms) {
  EXPECT_EQ(place(with(slurm_tasks(), {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}})).engine, Engine::kSlurm);
}

TEST(Mpi, OneRankIsNobodys) {
  EXPECT_EQ(place({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}).engine, Engine::kNobody);
  EXPECT_EQ(place({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).engine, Engine::kNobody);
}

}  // namespace
}  // namespace ddprun
