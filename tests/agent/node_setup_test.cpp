// SPDX-License-Identifier: MIT
#include "agent/node_setup.h"

#include "agent/own_node.h"
#include "rendezvous/address.h"
#include "support/error_of.h"

#include <gmock/gmock.h>

#include <regex>

namespace ddprun {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

using Variables = std::map<std::string, std::string>;

// Rank 1 of two on this machine.
Variables rank_of_two(Variables more = {}) {
  more.merge(Variables{{"RANK", "1"},
                       {"WORLD_SIZE", "2"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29511"}});
  return more;
}

struct Node {
  Variables variables = rank_of_two();
  LaunchConfig launch = {};
  TrainerConfig trainer = {.global_batch = 64};
  Machine machine = {.gpus = 2, .cores = 8};
  LaunchFlags flags = {};

  NodeSetup setup() const {
    Experiment experiment;
    experiment.launch = launch;
    experiment.trainer = trainer;
    return find_node_setup(flags, experiment, Environment(variables), machine);
  }

  LaunchPlan plan() const { return attempt_plan(setup(), {.world_size = 2, .run_dir = "run"}); }
};

// What stands in its way; empty where nothing does.
std::string refused_setup(const Node& node) {
  return error_of([&] { node.setup().hosts(); });
}

LaunchFlags nodes_at(const std::string& nnodes, const std::string& endpoint) {
  return {.nnodes = Setting{"--nnodes", nnodes}, .rdzv_endpoint = Setting{"--rdzv-endpoint", endpoint}};
}

std::string warnings_of_openness(NodeSetup setup) {
  std::string text;
  for (const auto& warning : prepare_to_host(setup, Environment(Variables())).warnings) text += warning + "\n";
  return text;
}

TEST(NodeSetup, WarnsOfATokenThatIsMissingOrTooShort) {
  const auto reached_from_elsewhere = [](const std::string& token) {
    return warnings_of_openness(
        {.endpoint = {"192.0.2.1", 29400}, .address = "192.0.2.1", .secret = {.id = "run", .token = token}});
  };
  EXPECT_THAT(reached_from_elsewhere(""), HasSubstr("anyone who can reach 192.0.2.1:29400 can join this run"));
  EXPECT_THAT(reached_from_elsewhere(""), HasSubstr("is not an address of this machine"));
  EXPECT_THAT(reached_from_elsewhere("secret"),
              HasSubstr("a token of 6 characters is too short; use the output of openssl rand -hex 32"));
  EXPECT_THAT(reached_from_elsewhere("0123456789abcdef"), Not(HasSubstr("token")));
  EXPECT_EQ(warnings_of_openness({.endpoint = {"127.0.0.1", 29400}, .address = "127.0.0.1", .at_endpoint = true}), "");
}

TEST(NodeSetup, ARankTakesTheGpuOfItsLocalRankOrTheOnlyOneThatItIsShown) {
  EXPECT_EQ(Node().plan().place.gpu, -1);
  const Node shown{.variables = rank_of_two({{"CUDA_VISIBLE_DEVICES", "3"}}), .machine = {.gpus = 1, .cores = 8}};
  EXPECT_EQ(shown.setup().launch.workers, 1);
  EXPECT_EQ(shown.setup().launch.device, Device::kGpu);
  EXPECT_EQ(shown.plan().place.gpu, 0);
  EXPECT_EQ(shown.plan().place.local_rank, 1);
}

TEST(NodeSetup, ARankThatSlurmHasBoundToItsCoresUsesThemAll) {
  const auto threads = [](const Variables& more, int64_t cores) {
    return Node{.variables = rank_of_two(more), .machine = {.gpus = 2, .cores = cores}}.setup().launch.threads;
  };
  EXPECT_EQ(threads({{"SLURM_CPUS_PER_TASK", "8"}}, 8), 8);
  EXPECT_EQ(threads({{"SLURM_CPUS_PER_TASK", "8"}}, 16), 8);  // both ranks' together
  EXPECT_EQ(threads({}, 8), 4);
}

TEST(NodeSetup, NcclChoosesItsInterfacesItselfAndWaitsSecondsNotAMinuteForItsRecords) {
  EXPECT_THAT(Node().plan().environment, Contains(Pair("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "2000")));
  const auto own = own_addresses();  // "127.0.0.1 (lo), 10.0.0.3 (eth0)"
  std::smatch other;
  if (!std::regex_search(own, other, std::regex(R"((?:^|, )(?!127\.)([0-9.]+) )")))
    GTEST_SKIP() << "this machine has no address but loopback";
  const Node addressed{.launch = {.address = other[1]}};
  EXPECT_EQ(addressed.plan().place.address, addressed.launch.address);
  EXPECT_THAT(addressed.plan().environment, Not(Contains(Key("NCCL_SOCKET_IFNAME"))));
}

TEST(NodeSetup, TheRunEndsItsMarginBeforeSlurmDoes) {
  const auto ends_at = [](double margin) {
    return Node{.variables = {{"SLURM_JOB_ID", "12"}, {"SLURM_JOB_END_TIME", "1795000000"}},
                .launch = {.end_margin_seconds = margin},
                .machine = {}}
        .plan()
        .ends_at;
  };
  EXPECT_EQ(ends_at(90), 1'795'000'000 - 90);
  EXPECT_EQ(ends_at(0), 0);
}

TEST(NodeSetup, IsRefusedWithWhatIsWrong) {
  const TrainerConfig dp{.strategy = Strategy::kDp};
  const auto several = [](TrainerConfig trainer) {
    return Node{.variables = {},
                .launch = {.workers = 2},
                .trainer = std::move(trainer),
                .machine = {.cores = 8},
                .flags = nodes_at("1:3", "127.0.0.1:1")};
  };
  // Its name may come to be known only while the node waits to join, as that of a service of Kubernetes.
  const Node first{.variables = {},
                   .launch = {.address = "127.0.0.1"},
                   .machine = {.cores = 8},
                   .flags = nodes_at("2", "nowhere.invalid:29400")};
  auto second = first;
  second.flags.node_rank = Setting{"--node-rank", "1"};
  const Refusals<Node> rows{
      {{.machine = {.gpus = 1, .cores = 8}}, "2 workers for 1 GPUs"},
      {{.launch = {.address = "203.0.113.7"}},  // for documentation: nobody has it
       "launch.address: 203.0.113.7 is not an address of this machine ... 127.0.0.1 (lo)"},
      {{.trainer = dp}, "trainer.strategy: dp is one process"},
      {{.variables = {}, .trainer = dp, .flags = nodes_at("2", "127.0.0.1:1")}, "trainer.strategy: dp is one process"},
      {several({.global_batch = 64}), ""},
      {several({.global_batch = 64, .shards = 4}),
       "trainer.shards: 4 shards for 6 workers on up to 3 nodes: each needs one"},
      {several({.global_batch = 64, .shards = 6}), ""},
      {several({.global_batch = 5}), "trainer.global_batch: 5 samples for 6 workers on up to 3 nodes"},
      {first, "the host nowhere.invalid is not known here"},
      {second, ""},
  };
  expect_refused(refused_setup, rows);
  EXPECT_EQ(second.setup().hosts(), NodeSetup::Hosts::kNo);
}

}  // namespace
}  // namespace ddprun
