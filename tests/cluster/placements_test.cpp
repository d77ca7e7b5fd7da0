// SPDX-License-Identifier: MIT
// One engine after the other, each with the environment that it makes, and with the flags that it leaves room for.
#include "cluster/environments.h"
#include "cluster/placement_text.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::HasSubstr;

struct Row {
  Variables variables;
  LaunchFlags flags;
  // What `ddprun env --json` says of it, in part. "evidence" and "ignored" have words of what is said of a variable;
  // empty: no more than that it is there.
  const char* placed;
};

// Expects that one of the list's entries is of this variable, and has these words.
void expect_said(const json& list, const std::string& variable, const std::string& words) {
  const auto is_its = [&](const json& entry) { return entry["variable"] == variable; };
  const auto found = std::ranges::find_if(list, is_its);
  ASSERT_NE(found, list.end()) << variable;
  EXPECT_THAT((*found)["meaning"].get<std::string>(), HasSubstr(words));
}

void expect_placed(const std::vector<Row>& rows) {
  for (const auto& [variables, flags, wanted] : rows) {
    SCOPED_TRACE(wanted);
    const auto placed = json::parse(placement_json(place(variables, flags), {})), expected = json::parse(wanted);
    for (const auto& [key, value] : expected.items()) {
      if (!value.is_object()) {
        EXPECT_EQ(placed[key], value) << key;
        continue;
      }
      for (const auto& [variable, words] : value.items()) expect_said(placed[key], variable, words.get<std::string>());
    }
  }
}

const Setting kNodes{"--nnodes", "2"}, kEndpoint{"--rdzv-endpoint", "node1:1234"}, kWorkers{"--nproc-per-node", "2"};
const Setting kAddress{"--master-addr", "node1"}, kPort{"--master-port", "1234"}, kStandalone{"--standalone", ""};

TEST(Placement, OfThisCommandAloneIsOneNodeWithTheExperimentsWorkers) {
  expect_placed({
      {{}, {}, R"({"engine": "", "role": "node", "max_nodes": 1, "node_rank": 0, "workers": "", "host": "",
                   "evidence": [], "ignored": []})"},
      // Stray variables of a shell are named.
      {{{"NODE_RANK", "3"}, {"MASTER_ADDR", "node9"}, {"WORLD_SIZE", "many"}, {"RANK", ""}},
       {},
       R"({"engine": "", "host": "", "evidence": [],
           "ignored": {"NODE_RANK": "it says nothing by itself", "WORLD_SIZE": "it says nothing by itself",
                       "MASTER_ADDR": "a single node meets nobody"}})"},
  });
}

TEST(Placement, OfTorchrunIsARankWithItsAgentsStore) {
  const auto bare = with(torchrun(), {{"TORCHELASTIC_RUN_ID", "none"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}});
  const Variables one_a_node{{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};
  auto ray = with(torchrun(), {{"NODE_RANK", "1"}, {"ACCELERATE_TORCH_DEVICE", "cuda:0"}});
  std::erase_if(ray, [](const auto& variable) { return variable.first.starts_with("TORCHELASTIC"); });
  expect_placed({
      {torchrun(), {}, R"({"engine": "torchrun", "role": "rank", "rank": 2, "world_size": 4, "local_rank": 0,
                           "local_world_size": 2, "host": "node1", "port": 29400, "agent_store": true,
                           "job_id": "mnist-7", "restart_count": 1, "engine_restarts": true,
                           "error_file": "/tmp/error.json", "evidence": {"RANK": "the rank of this process"}})"},
      {bare, {}, R"({"job_id": "", "agent_store": false})"},
      // Within a Slurm step of one task per node, also where there are as many ranks as tasks, numbered otherwise.
      {with(slurm_nodes(), with(torchrun(), {{"SLURM_RESTART_COUNT", "5"}})),
       {},
       R"({"engine": "torchrun", "rank": 2, "job_id": "mnist-7", "restart_count": 1,
           "ignored": {"SLURM_PROCID": "torchrun takes precedence"}})"},
      {with(slurm_nodes(), with(torchrun(), one_a_node)), {}, R"({"rank": 0})"},
      {with(slurm_nodes(), bare), {}, R"({"job_id": "4242"})"},
      // One rank is nobody's, and keeps the job.
      {with(torchrun(), {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "1"}}),
       {},
       R"({"engine": "", "role": "node", "workers": "1", "host": "", "job_id": "mnist-7", "restart_count": 1,
           "engine_restarts": true, "error_file": "/tmp/error.json"})"},
      // Ray, which is known by its variables and makes ranks of its own, and something else that sets the same.
      {with(slurm_nodes(), ray), {}, R"({"engine": "ray", "rank": 2, "agent_store": false, "engine_restarts": false})"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}},
       {},
       R"({"engine": "env", "host": "::1", "local_world_size": 2})"},
  });
}

TEST(Placement, OfASlurmStepIsANodeOrARankByItsTasks) {
  const Variables elsewhere{{"MASTER_ADDR", "gpu03-ib"}, {"MASTER_PORT", "12355"}};
  const Variables unequal{{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "2,1"}};
  const Variables second{{"SLURM_PROCID", "1"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "1"}};
  const Variables on_one_node{{"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_NODEID", "0"},
                              {"SLURM_LOCALID", "2"},        {"SLURM_STEP_NODELIST", "gpu03"},
                              {"MASTER_ADDR", "login1"},     {"SLURM_STEP_TASKS_PER_NODE", "4"}};
  expect_placed({
      {slurm_nodes(), {}, R"({"engine": "slurm", "role": "node", "min_nodes": 2, "max_nodes": 2, "node_rank": 1,
                              "workers": "", "host": "gpu03", "port": 26954, "job_id": "4242",
                              "evidence": {"SLURM_STEP_NODELIST": "the nodes meet at its first host, gpu03"}})"},
      {slurm_tasks(), {}, R"({"engine": "slurm", "role": "rank", "rank": 2, "world_size": 4, "local_rank": 0,
                              "local_world_size": 2, "host": "gpu03", "port": 26954})"},
      {with(slurm_tasks(), unequal), {}, R"({"local_world_size": 1})"},
      {with(slurm_tasks(), with(unequal, second)), {}, R"({"local_world_size": 2})"},
      {with(slurm_tasks(), {{"SLURM_NTASKS_PER_NODE", "4"}}),
       {},
       R"({"local_world_size": 2, "ignored": {"SLURM_NTASKS_PER_NODE": "the step's own variables"}})"},
      {with(slurm_tasks(), on_one_node),
       {},
       R"({"host": "127.0.0.1", "local_world_size": 4, "ignored": {"MASTER_ADDR": "127.0.0.1"}})"},
      // The port is the job's and the step's, unless the script says it.
      {with(slurm_tasks(), {{"SLURM_STEP_ID", "3"}, {"SLURM_JOB_ID", "67108863"}}), {}, R"({"port": 27934})"},
      {with(slurm_tasks(), elsewhere), {}, R"({"host": "gpu03-ib", "port": 12355})"},
      {with(slurm_nodes(), {{"MASTER_ADDR", "gpu03"}}), {}, R"({"host": "gpu03"})"},
      {with(slurm_nodes(), {{"SLURM_ARRAY_JOB_ID", "4240"}, {"SLURM_ARRAY_TASK_ID", "7"}}),
       {},
       R"({"job_id": "4240_7"})"},
      {with(slurm_tasks(), {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}),
       {},
       R"({"engine": "", "job_id": "4242"})"},
      // A batch script and salloc's shell are not many ranks.
      {with(slurm_tasks(), {{"SLURM_STEP_ID", ""}, {"SLURM_RESTART_COUNT", "2"}}),
       {},
       R"({"engine": "", "max_nodes": 1, "job_id": "4242", "restart_count": 2,
           "ignored": {"SLURM_NTASKS": "only srun starts several"}})"},
      {with(slurm_tasks(), {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_RESTART_COUNT", "2"}}),
       {},
       R"({"engine": "", "max_nodes": 1, "job_id": "4242", "restart_count": 2})"},
      // MPICH's variables that Slurm serves are Slurm's.
      {with(slurm_tasks(), {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}), {}, R"({"engine": "slurm"})"},
  });
}

TEST(Placement, OfMpiIsARank) {
  const Variables two_nodes{{"OMPI_COMM_WORLD_SIZE", "4"}, {"MASTER_ADDR", "gpu03"}};
  expect_placed({
      {with(openmpi(), {{"MASTER_PORT", "12355"}}),
       {},
       R"({"engine": "openmpi", "role": "rank", "rank": 1, "local_world_size": 2, "host": "127.0.0.1",
           "port": 12355})"},
      {with(openmpi(), two_nodes), {}, R"({"host": "gpu03"})"},
      {with(slurm_nodes(), with(openmpi(), two_nodes)), {}, R"({"engine": "openmpi", "rank": 1, "job_id": "4242"})"},
      {with(mpich(), {{"MASTER_PORT", "12355"}}),
       {},
       R"({"engine": "mpich", "rank": 1, "local_rank": 1, "host": "127.0.0.1", "port": 12355})"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, {}, R"({"engine": ""})"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, {}, R"({"engine": ""})"},
  });
  EXPECT_EQ(place(openmpi()).port, port_of_job("833028096.0;tcp://192.0.2.2:55715"));
  EXPECT_EQ(place(with(openmpi(), {{"OMPI_MCA_orte_hnp_uri", ""}})).port, port_of_job("833028097"));
}

TEST(Placement, OfAPodIsANode) {
  const auto newer = with(kubeflow(), {{"WORLD_SIZE", "12"},
                                       {"PET_NNODES", "3"},
                                       {"PET_NPROC_PER_NODE", "4"},
                                       {"PET_NODE_RANK", "1"},
                                       {"PET_MASTER_ADDR", "mnist-master-0"},
                                       {"PET_MASTER_PORT", "23456"}});
  const Variables elastic{
      {"PET_NNODES", "2:4"},        {"PET_N_PROC_PER_NODE", "8"}, {"PET_RDZV_ENDPOINT", "mnist-worker-0:23456"},
      {"PET_RDZV_BACKEND", "c10d"}, {"PET_RDZV_ID", "mnist"},     {"PET_MAX_RESTARTS", "5"}};
  const Variables of_a_train_job{{"PET_NNODES", "2"},
                                 {"PET_NPROC_PER_NODE", "gpu"},
                                 {"PET_NODE_RANK", "1"},
                                 {"PET_MASTER_ADDR", "mnist-node-0"},
                                 {"PET_MASTER_PORT", "29400"}};
  expect_placed({
      {kubeflow(), {}, R"({"engine": "kubeflow", "role": "node", "max_nodes": 3, "node_rank": 1, "workers": "",
                           "host": "mnist-master-0", "port": 23456})"},
      {with(kubeflow(), {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), {}, R"({"engine": ""})"},
      // Newer operators count the workers of all pods.
      {newer, {}, R"({"engine": "kubeflow", "max_nodes": 3, "workers": "4"})"},
      {with(newer, {{"WORLD_SIZE", "3"}, {"PET_NPROC_PER_NODE", "auto"}}), {}, R"({"workers": "auto"})"},
      {elastic, {}, R"({"engine": "pet", "min_nodes": 2, "max_nodes": 4, "node_rank": null, "workers": "8",
                        "host": "mnist-worker-0", "port": 23456, "job_id": "mnist", "max_restarts": 5})"},
      {of_a_train_job, {}, R"({"node_rank": 1, "workers": "gpu", "host": "mnist-node-0"})"},
      {{{"PET_NNODES", "1"}, {"PET_STANDALONE", "1"}, {"PET_MAX_RESTARTS", "2"}}, {}, R"({"engine": ""})"},
      {{{"PET_NNODES", "1"}, {"PET_MAX_RESTARTS", "2"}}, {}, R"({"max_restarts": 2})"},
      // Elastic pods of a job with a master are numbered where they meet.
      {with(kubeflow(), {{"PET_NNODES", "1:2"}, {"PET_RDZV_ENDPOINT", "w0:1234"}, {"RANK", "2"}}),
       {},
       R"({"node_rank": null, "host": "w0"})"},
      {{{"PET_RDZV_BACKEND", "etcd"}}, {}, R"({"max_nodes": 1})"},
  });
}

TEST(Placement, OfFlagsIsWhatTorchrunWouldDo) {
  const LaunchFlags all{.nnodes = Setting{"--nnodes", "2:4"},
                        .nproc_per_node = Setting{"--nproc-per-node", "8"},
                        .rdzv_endpoint = kEndpoint,
                        .rdzv_id = Setting{"--rdzv-id", "mnist"},
                        .rdzv_backend = Setting{"--rdzv-backend", "c10d"},
                        .max_restarts = Setting{"--max-restarts", "3"}};
  expect_placed({
      {{}, all, R"({"engine": "flags", "role": "node", "min_nodes": 2, "max_nodes": 4, "node_rank": null,
                    "workers": "8", "host": "node1", "port": 1234, "job_id": "mnist", "max_restarts": 3})"},
      {{}, {.nnodes = kNodes, .master_addr = kAddress, .master_port = kPort}, R"({"host": "node1", "port": 1234})"},
      {{}, {.nnodes = kNodes, .master_addr = kAddress}, R"({"port": 29500})"},
      {{}, {.nnodes = kNodes, .rdzv_endpoint = Setting{"--rdzv-endpoint", "node1"}}, R"({"port": 29400})"},
      {{},
       {.nnodes = kNodes, .rdzv_endpoint = kEndpoint, .master_addr = kAddress, .master_port = kPort},
       R"({"port": 1234})"},
      {{},
       {.nnodes = Setting{"--nnodes", "1:2"}, .node_rank = Setting{"--node-rank", "1"}, .rdzv_endpoint = kEndpoint},
       R"({"node_rank": 1})"},
      {{},
       {.nnodes = Setting{"--nnodes", "1"},
        .nproc_per_node = kWorkers,
        .rdzv_endpoint = Setting{"--rdzv-endpoint", "localhost:0"},
        .standalone = kStandalone},
       R"({"engine": "flags", "host": "", "workers": "2", "ignored": {"--rdzv-endpoint": "meets nobody"}})"},
      {{}, {.rdzv_backend = Setting{"--rdzv-backend", "static"}}, R"({"max_nodes": 1})"},
  });
}

TEST(Placement, OfFlagsBesideAnEngineIsWhatItLeavesOpen) {
  const Variables address{{"MASTER_ADDR", "node9"}, {"MASTER_PORT", "8888"}};
  const Variables pet{{"PET_NNODES", "2"}, {"PET_RDZV_ENDPOINT", "w0:1"}, {"PET_NPROC_PER_NODE", "4"}};
  expect_placed({
      {address,
       {.nnodes = kNodes, .node_rank = Setting{"--node-rank", "1"}},
       R"({"host": "node9", "port": 8888, "node_rank": 1})"},
      {address, {.nnodes = kNodes, .rdzv_endpoint = kEndpoint}, R"({"host": "node1"})"},
      {pet,
       {.nproc_per_node = kWorkers, .master_addr = kAddress},
       R"({"max_nodes": 2, "workers": "2", "host": "node1", "port": 29500,
           "ignored": {"PET_NPROC_PER_NODE": "the flags take precedence"}})"},
      {slurm_nodes(),
       {.nnodes = kNodes, .nproc_per_node = kWorkers, .max_restarts = Setting{"--max-restarts", "1"}},
       R"({"engine": "slurm", "workers": "2", "node_rank": 1, "host": "gpu03", "max_restarts": 1})"},
      {slurm_nodes(), {.rdzv_endpoint = kEndpoint}, R"({"host": "node1"})"},
      {slurm_nodes(), {.master_port = kPort}, R"({"host": "gpu03", "port": 1234})"},
      {slurm_nodes(), {.rdzv_id = Setting{"--rdzv-id", "mnist"}}, R"({"job_id": "mnist"})"},
      {kubeflow(), {.nproc_per_node = kWorkers}, R"({"workers": "2"})"},
  });
}

TEST(Placement, KnowsTheEndOfTheJobsTimeAndHowManyRunsAScriptHasStartedBefore) {
  const Variables end{{"SLURM_JOB_END_TIME", "1795000000"}};
  EXPECT_EQ(place(with(slurm_nodes(), end)).ends_at, 1'795'000'000);
  EXPECT_EQ(place(with(slurm_nodes(), with(torchrun(), end))).ends_at, 1'795'000'000);
  EXPECT_EQ(place(slurm_nodes()).ends_at, 0);
  EXPECT_EQ(place(torchrun()).earlier_runs, 0);
  const auto later = place(with(torchrun(), {{"DDPRUN_EARLIER_RUNS", "2"}}));
  EXPECT_EQ(later.earlier_runs, 2);
  EXPECT_TRUE(std::ranges::any_of(
      later.evidence, [](const Evidence& one) { return one.variable == "DDPRUN_EARLIER_RUNS" && one.counted; }));
}

}  // namespace
}  // namespace ddprun
