// SPDX-License-Identifier: MIT
// What stops with an error instead of a hang or a run of the wrong size.
#include "cluster/environments.h"
#include "cluster/placement.h"

namespace ddprun {
namespace {

using namespace testing;

struct Situation {
  Variables variables;
  LaunchFlags flags = {};
};

void expect_refusals(const Refusals<Situation>& rows) {
  expect_refused<Situation>([](const Situation& one) { return refusal(one.variables, one.flags); }, rows);
}

std::string contradiction(const std::string& one, const std::string& other) {
  return one + " and " + other + " contradict each other: ";
}

// torch's variables, set by a script.
Variables by_hand(const std::string& rank, const std::string& world_size, const std::string& local_rank) {
  return {{"RANK", rank},           {"WORLD_SIZE", world_size}, {"LOCAL_RANK", local_rank},
          {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"},   {"LOCAL_WORLD_SIZE", "2"}};
}

TEST(Contradiction, OfTwoEngines) {
  const Variables as_slurm{{"WORLD_SIZE", "4"},      {"RANK", "2"},
                           {"LOCAL_RANK", "0"},      {"MASTER_ADDR", "gpu03"},
                           {"MASTER_PORT", "29500"}, {"LOCAL_WORLD_SIZE", "2"}};
  expect_refusals({
      {{with(openmpi(), by_hand("0", "2", "1"))}, contradiction("RANK=0", "OMPI_COMM_WORLD_RANK=1")},
      {{with(openmpi(), {{"RANK", "0"}})}, contradiction("RANK=0", "OMPI_COMM_WORLD_RANK=1")},
      {{with(mpich(), by_hand("0", "2", "1"))}, contradiction("RANK=0", "PMI_RANK=1")},
      {{with(openmpi(), by_hand("1", "2", "1"))}, ""},
      {{with(slurm_tasks(), {{"WORLD_SIZE", "8"}})}, contradiction("WORLD_SIZE=8", "SLURM_STEP_NUM_TASKS=4")},
      {{with(slurm_nodes(), {{"WORLD_SIZE", "8"}})}, contradiction("WORLD_SIZE=8", "SLURM_STEP_NUM_TASKS=2")},
      {{with(slurm_tasks(), by_hand("0", "1", "0"))}, contradiction("WORLD_SIZE=1", "SLURM_STEP_NUM_TASKS=4")},
      {{with(slurm_tasks(), as_slurm)}, ""},
      {{with(slurm_tasks(), {{"RANK", "0"}})}, contradiction("RANK=0", "SLURM_PROCID=2")},
      {{with(slurm_tasks(), {{"LOCAL_RANK", "1"}})}, contradiction("LOCAL_RANK=1", "SLURM_LOCALID=0")},
      {{with(slurm_tasks(), openmpi())}, contradiction("OMPI_COMM_WORLD_SIZE=2", "SLURM_STEP_NUM_TASKS=4")},
      {{with(slurm_tasks(), {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}})}, contradiction("SLURM_PROCID=2", "PMI_RANK=0")},
  });
}

TEST(Contradiction, OfANumberAndItsLimit) {
  expect_refusals({
      {{by_hand("4", "4", "0")}, contradiction("RANK=4", "WORLD_SIZE=4")},
      {{by_hand("1", "4", "2")}, contradiction("LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2")},
      {{with(by_hand("1", "4", "2"), {{"LOCAL_WORLD_SIZE", "8"}})},
       contradiction("LOCAL_WORLD_SIZE=8", "WORLD_SIZE=4")},
      {{with(kubeflow(), {{"RANK", "3"}})}, contradiction("RANK=3", "WORLD_SIZE=3")},
      {{with(slurm_tasks(), {{"SLURM_PROCID", "4"}})}, contradiction("SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=4")},
      {{with(slurm_tasks(), {{"SLURM_LOCALID", "2"}})},
       contradiction("SLURM_LOCALID=2", "SLURM_STEP_TASKS_PER_NODE[1]=2")},
      {{with(slurm_tasks(), {{"SLURM_STEP_TASKS_PER_NODE", "4"}})},
       contradiction("SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=4")},
      {{{{"PET_NNODES", "2"}, {"PET_NODE_RANK", "2"}, {"PET_RDZV_ENDPOINT", "w0"}}},
       contradiction("PET_NODE_RANK=2", "PET_NNODES=2")},
  });
}

TEST(Contradiction, OfWhereTheRanksMeetAndOfPodsThatAreCountedTwice) {
  const auto pods = with(kubeflow(), {{"PET_NNODES", "3"}, {"PET_NPROC_PER_NODE", "4"}});
  const std::string hosts = "SLURM_STEP_NODELIST=gpu[03-04]";
  expect_refusals({
      {{with(slurm_nodes(), {{"MASTER_ADDR", "gpu04"}})}, contradiction("MASTER_ADDR=gpu04", hosts)},
      {{with(slurm_nodes(), {{"MASTER_ADDR", "localhost"}})}, contradiction("MASTER_ADDR=localhost", hosts)},
      {{with(slurm_nodes(), {{"MASTER_ADDR", "127.0.0.1"}})}, contradiction("MASTER_ADDR=127.0.0.1", hosts)},
      {{with(slurm_tasks(), {{"SLURM_PROCID", "0"}})}, contradiction("SLURM_PROCID=0", "SLURM_NODEID=1")},
      {{with(pods, {{"WORLD_SIZE", "6"}})}, contradiction("WORLD_SIZE=6", "PET_NNODES=3")},
      {{with(pods, {{"PET_NODE_RANK", "2"}})}, contradiction("RANK=1", "PET_NODE_RANK=2")},
  });
}

TEST(Contradiction, OfFlags) {
  const Setting nodes{"--nnodes", "2"}, endpoint{"--rdzv-endpoint", "node1:1234"}, standalone{"--standalone", ""};
  const Setting etcd{"--rdzv-backend", "etcd"};
  const Variables pet_etcd{{"PET_RDZV_BACKEND", "etcd"}, {"PET_NNODES", "2"}, {"PET_RDZV_ENDPOINT", "w0"}};
  expect_refusals({
      // Beside an engine that has started every rank.
      {{torchrun(), {.nnodes = nodes}}, contradiction("--nnodes=2", "WORLD_SIZE=4") + " ... torchrun has started"},
      {{slurm_tasks(), {.nnodes = nodes}}, contradiction("--nnodes=2", "SLURM_STEP_NUM_TASKS=4")},
      {{openmpi(), {.nnodes = nodes}}, contradiction("--nnodes=2", "OMPI_COMM_WORLD_SIZE=2")},
      {{mpich(), {.standalone = standalone}}, contradiction("--standalone", "PMI_SIZE=2")},
      {{torchrun(), {.max_restarts = Setting{"--max-restarts", "3"}}}, "leave the flag out"},
      // Beside nodes that are counted otherwise.
      {{slurm_nodes(), {.nnodes = Setting{"--nnodes", "3"}}}, contradiction("--nnodes=3", "SLURM_STEP_NUM_NODES=2")},
      {{slurm_nodes(), {.node_rank = Setting{"--node-rank", "0"}}}, contradiction("--node-rank=0", "SLURM_NODEID=1")},
      {{kubeflow(), {.nnodes = nodes}}, contradiction("--nnodes=2", "WORLD_SIZE=3")},
      {{slurm_nodes(), {.standalone = standalone}}, contradiction("--standalone", "SLURM_STEP_NUM_NODES=2")},
      // Of each other.
      {{{}, {.nnodes = nodes, .rdzv_endpoint = endpoint, .master_addr = Setting{"--master-addr", "node2"}}},
       "--rdzv-endpoint=node1:1234 and --master-addr=node2 contradict"},
      {{{}, {.nnodes = nodes, .rdzv_endpoint = endpoint, .master_port = Setting{"--master-port", "1"}}},
       "--rdzv-endpoint=node1:1234 and --master-port=1 contradict"},
      {{{}, {.nnodes = nodes, .node_rank = Setting{"--node-rank", "2"}, .rdzv_endpoint = endpoint}},
       "--node-rank=2 and --nnodes=2 contradict"},
      {{{}, {.nnodes = nodes, .standalone = standalone}}, "--standalone and --nnodes=2 contradict"},
      {{{}, {.node_rank = Setting{"--node-rank", "1"}}}, "--node-rank=1 and --nnodes=1 contradict"},
      {{{}, {.rdzv_backend = etcd}}, "etcd is not supported"},
      {{pet_etcd}, "PET_RDZV_BACKEND=etcd"},
  });
}

TEST(Missing, IsNamed) {
  const auto of_two_nodes = with(openmpi(), {{"OMPI_COMM_WORLD_SIZE", "4"}});
  const Variables of_one_node{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_PORT", "29500"}};
  expect_refusals({
      {{{{"RANK", "1"}}}, "RANK=1, but WORLD_SIZE is not set"},
      {{{{"OMPI_COMM_WORLD_RANK", "1"}}}, "OMPI_COMM_WORLD_SIZE is not set"},
      {{{{"PMI_RANK", "1"}}}, "PMI_SIZE is not set"},
      {{{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}}, "MPI_LOCALRANKID is not set"},
      {{with(slurm_tasks(), {{"SLURM_NODEID", ""}})}, "SLURM_NODEID is not set"},
      {{with(of_one_node, {{"MASTER_ADDR", "node1"}})}, "LOCAL_WORLD_SIZE is not set"},
      {{with(torchrun(), {{"MASTER_ADDR", ""}})}, "MASTER_ADDR is not set"},
      {{with(torchrun(), {{"MASTER_PORT", ""}})}, "MASTER_PORT is not set"},
      {{with(kubeflow(), {{"MASTER_ADDR", ""}})}, "WORLD_SIZE=3, but where do the nodes meet?"},
      {{{{"PET_NNODES", "2"}}}, "PET_NNODES=2, but where do the nodes meet?"},
      {{{}, {.nnodes = Setting{"--nnodes", "2"}}}, "--nnodes=2, but where do the nodes meet?"},
      {{with(slurm_nodes(), {{"SLURM_STEP_NODELIST", ""}, {"SLURM_JOB_NODELIST", ""}})},
       "SLURM_STEP_NODELIST is not set"},
      {{of_two_nodes}, "OMPI_COMM_WORLD_LOCAL_SIZE=2 of OMPI_COMM_WORLD_SIZE=4 ... mpirun -x MASTER_ADDR="},
      {{mpich()}, "mpiexec -genv MASTER_PORT"},
  });
}

TEST(Malformed, IsSaidWithNameValueAndWhatWasExpected) {
  for (const std::string value : {"two", "2x", "-1", "+2", " 2", "2.0", "99999999999"})
    expect_refusals(
        {{{with(torchrun(), {{"RANK", value}})}, "RANK=" + value + ": expected a whole number of at least 0"}});
  expect_refusals({
      {{with(torchrun(), {{"WORLD_SIZE", "0"}})}, "WORLD_SIZE=0: expected a whole number of at least 1"},
      {{with(torchrun(), {{"MASTER_PORT", "70000"}})}, "MASTER_PORT=70000: expected a whole number from 1 to 65535"},
      {{with(torchrun(), {{"MASTER_ADDR", "node1:29500"}})}, "expected a host without a port"},
      {{with(slurm_nodes(), {{"SLURM_RESTART_COUNT", "often"}})}, "SLURM_RESTART_COUNT=often"},
      {{{{"DDPRUN_EARLIER_RUNS", "some"}}}, "DDPRUN_EARLIER_RUNS=some"},
      {{{{"PET_NNODES", "4:2"}}}, "PET_NNODES=4:2: expected N or MIN:MAX"},
      {{{{"PET_NPROC_PER_NODE", "all"}}}, "expected a number of at least 1, auto, gpu or cpu"},
  });
}

}  // namespace
}  // namespace ddprun
