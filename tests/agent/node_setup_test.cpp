// SPDX-License-Identifier: MIT
#include "agent/node_setup.h"

#include "agent/own_node.h"
#include "support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace ddprun {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

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

Experiment experiment(const std::string& strategy = "ddp") {
  Experiment experiment;
  experiment.trainer.global_batch = 64;
  experiment.trainer.strategy = enum_of<Strategy>(strategy).value();
  return experiment;
}

NodeSetup reached_from_elsewhere(const std::string& token) {
  return {.endpoint = {"192.0.2.1", 29400}, .address = "192.0.2.1", .secret = {.id = "run", .token = token}};
}

std::vector<std::string> warnings_of_openness(NodeSetup setup) {
  return prepare_to_host(setup, Environment(Variables())).warnings;
}

TEST(NodeSetup, WarnsOfATokenThatIsMissingOrTooShort) {
  EXPECT_THAT(warnings_of_openness(reached_from_elsewhere("")),
              Contains(HasSubstr("anyone who can reach 192.0.2.1:29400 can join this run")));
  EXPECT_THAT(warnings_of_openness(reached_from_elsewhere("secret")),
              Contains(HasSubstr("a token of 6 characters is too short; use the output of openssl rand -hex 32")));
  EXPECT_THAT(warnings_of_openness(reached_from_elsewhere("0123456789abcdef")), Not(Contains(HasSubstr("token"))));
  EXPECT_THAT(warnings_of_openness(reached_from_elsewhere("")),
              Contains(HasSubstr("is not an address of this machine")));
  EXPECT_THAT(warnings_of_openness({.endpoint = {"127.0.0.1", 29400}, .address = "127.0.0.1", .at_endpoint = true}),
              ::testing::IsEmpty());
}

TEST(NodeSetup, ARankThatIsShownItsOwnGpuUsesIt) {
  const auto setup = find_node_setup({}, experiment(), Environment(rank_of_two({{"CUDA_VISIBLE_DEVICES", "3"}})),
                                     {.gpus = 1, .cores = 8});
  EXPECT_EQ(setup.launch.workers, 1);
  EXPECT_EQ(setup.launch.device, Device::kGpu);
  const auto plan = attempt_plan(setup, {.world_size = 2, .run_dir = "run"});
  EXPECT_EQ(plan.place.gpu, 0);
  EXPECT_EQ(plan.place.local_rank, 1);
}

TEST(NodeSetup, ARankThatSeesAllGpusTakesThatOfItsLocalRank) {
  const auto setup = find_node_setup({}, experiment(), Environment(rank_of_two()), {.gpus = 2, .cores = 8});
  EXPECT_EQ(attempt_plan(setup, {.world_size = 2, .run_dir = "run"}).place.gpu, -1);
}

TEST(NodeSetup, ARankThatSlurmHasBoundToItsCoresUsesThemAll) {
  auto variables = rank_of_two({{"SLURM_CPUS_PER_TASK", "8"}});
  const auto threads = [&variables](int64_t cores) {
    return find_node_setup({}, experiment(), Environment(variables), {.gpus = 2, .cores = cores}).launch.threads;
  };
  EXPECT_EQ(threads(8), 8);
  EXPECT_EQ(threads(16), 8);  // both ranks' together
  variables.erase("SLURM_CPUS_PER_TASK");
  EXPECT_EQ(threads(8), 4);
}

std::string address_of_this_machine() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  char text[INET_ADDRSTRLEN] = "";
  for (const auto* at = list; at != nullptr; at = at->ifa_next) {
    if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text, sizeof text);
  }
  freeifaddrs(list);
  return text;
}

TEST(NodeSetup, NcclChoosesItsInterfacesItself) {
  auto wanted = experiment();
  wanted.launch.address = address_of_this_machine();
  if (wanted.launch.address.empty()) GTEST_SKIP() << "this machine has no address but loopback";
  const auto setup = find_node_setup({}, wanted, Environment(rank_of_two()), {.gpus = 2, .cores = 8});
  const auto plan = attempt_plan(setup, {.world_size = 2, .run_dir = "run"});
  EXPECT_EQ(plan.place.address, wanted.launch.address);
  EXPECT_THAT(plan.environment, Not(Contains(Key("NCCL_SOCKET_IFNAME"))));
}

TEST(NodeSetup, AnAddressThatIsNotThisMachinesIsRefusedWithThoseThatAre) {
  auto wanted = experiment();
  wanted.launch.address = "203.0.113.7";  // for documentation: nobody has it
  const auto error =
      error_of([&] { find_node_setup({}, wanted, Environment(rank_of_two()), {.gpus = 2, .cores = 8}); });
  EXPECT_THAT(error, HasSubstr("launch.address: 203.0.113.7 is not an address of this machine"));
  EXPECT_THAT(error, HasSubstr("127.0.0.1 (lo)"));
}

TEST(NodeSetup, NcclsWatchdogWaitsSecondsNotAMinuteForItsRecords) {
  const auto setup = find_node_setup({}, experiment(), Environment(rank_of_two()), {.gpus = 2, .cores = 8});
  EXPECT_THAT(attempt_plan(setup, {.world_size = 2, .run_dir = "run"}).environment,
              Contains(Pair("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "2000")));
}

TEST(NodeSetup, TheRunEndsItsMarginBeforeSlurmDoes) {
  auto wanted = experiment();
  wanted.launch.end_margin_seconds = 90;
  const Environment job({{"SLURM_JOB_ID", "12"}, {"SLURM_JOB_END_TIME", "1795000000"}});
  EXPECT_EQ(attempt_plan(find_node_setup({}, wanted, job, {}), {.run_dir = "run"}).ends_at, 1'795'000'000 - 90);
  wanted.launch.end_margin_seconds = 0;
  EXPECT_EQ(attempt_plan(find_node_setup({}, wanted, job, {}), {.run_dir = "run"}).ends_at, 0);
}

TEST(NodeSetup, TwoRanksForTheOnlyGpuAreRefused) {
  const auto error =
      error_of([&] { find_node_setup({}, experiment(), Environment(rank_of_two()), {.gpus = 1, .cores = 8}); });
  EXPECT_THAT(error, HasSubstr("2 workers for 1 GPUs"));
}

TEST(NodeSetup, MoreWorkersThanShardsOrSamplesAreRefusedBeforeTheirNodesCome) {
  auto few = experiment();
  few.launch.workers = 2;
  const LaunchFlags flags{.nnodes = Setting{"--nnodes", "1:3"},
                          .rdzv_endpoint = Setting{"--rdzv-endpoint", "127.0.0.1:1"}};
  const auto refusal = [&] { return error_of([&] { find_node_setup(flags, few, Environment(), {.cores = 8}); }); };
  EXPECT_EQ(refusal(), "");
  few.trainer.shards = 4;
  EXPECT_THAT(refusal(), StartsWith("trainer.shards: 4 shards for 6 workers on up to 3 nodes: each needs one"));
  few.trainer.shards = 6;
  EXPECT_EQ(refusal(), "");
  few.trainer.shards = 0;
  few.trainer.global_batch = 5;
  EXPECT_THAT(refusal(), StartsWith("trainer.global_batch: 5 samples for 6 workers on up to 3 nodes"));
}

// Its name may come to be known only while the node waits to join, as that of a service of Kubernetes.
TEST(NodeSetup, ANodeThatJoinsDoesNotAskForTheHostOfTheFirst) {
  auto wanted = experiment();
  wanted.launch.address = "127.0.0.1";
  LaunchFlags flags{.nnodes = Setting{"--nnodes", "2"},
                    .node_rank = Setting{"--node-rank", "1"},
                    .rdzv_endpoint = Setting{"--rdzv-endpoint", "nowhere.invalid:29400"}};
  const auto hosts = [&] { return find_node_setup(flags, wanted, Environment(), {.cores = 8}).hosts(); };
  EXPECT_EQ(hosts(), NodeSetup::Hosts::kNo);
  flags.node_rank = std::nullopt;
  EXPECT_THAT(error_of(hosts), HasSubstr("the host nowhere.invalid is not known here")) << "it may be the first itself";
}

TEST(NodeSetup, StrategyDpIsRefusedInOneOfSeveralProcesses) {
  const LaunchFlags nodes{.nnodes = Setting{"--nnodes", "2"},
                          .rdzv_endpoint = Setting{"--rdzv-endpoint", "127.0.0.1:1"}};
  for (const auto& [flags, variables] : {std::pair(LaunchFlags(), rank_of_two()), std::pair(nodes, Variables())}) {
    const auto error =
        error_of([&] { find_node_setup(flags, experiment("dp"), Environment(variables), {.gpus = 2, .cores = 8}); });
    EXPECT_THAT(error, HasSubstr("trainer.strategy: dp is one process"));
  }
}

}  // namespace
}  // namespace ddprun
