// SPDX-License-Identifier: MIT
#include "command_line/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

Arguments parse(std::vector<std::string> words) {
  words.insert(words.begin(), "ddprun");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  return parse_arguments(static_cast<int>(argv.size()), argv.data());
}

std::string text(const std::optional<Setting>& setting) { return setting ? setting->text() : "(not given)"; }

TEST(LaunchFlags, AreTorchruns) {
  const auto arguments =
      parse({"run", "--nnodes=1:4", "--nproc-per-node", "8", "--node-rank=1", "--rdzv-endpoint=[::1]:1",
             "--rdzv-id=mnist", "--rdzv-backend=c10d", "--max-restarts=3", "--master-addr=node1", "--master-port=1",
             "--standalone", "e.yaml", "trainer.max_epochs=3"});
  const auto& flags = arguments.launch;
  EXPECT_EQ(text(flags.nnodes), "--nnodes=1:4");
  EXPECT_EQ(text(flags.nproc_per_node), "--nproc-per-node=8");
  EXPECT_EQ(text(flags.node_rank), "--node-rank=1");
  EXPECT_EQ(text(flags.rdzv_endpoint), "--rdzv-endpoint=[::1]:1");
  EXPECT_EQ(text(flags.rdzv_id), "--rdzv-id=mnist");
  EXPECT_EQ(text(flags.rdzv_backend), "--rdzv-backend=c10d");
  EXPECT_EQ(text(flags.max_restarts), "--max-restarts=3");
  EXPECT_EQ(text(flags.master_addr), "--master-addr=node1");
  EXPECT_EQ(text(flags.master_port), "--master-port=1");
  EXPECT_EQ(text(flags.standalone), "--standalone");
  EXPECT_EQ(arguments.target, "e.yaml");
  EXPECT_THAT(arguments.overrides, ::testing::ElementsAre("trainer.max_epochs=3"));
}

TEST(LaunchFlags, MayStandBeforeTheExperimentWithoutACommand) {
  const auto arguments = parse({"--nnodes=2", "--rdzv_endpoint=node1", "e.yaml"});
  EXPECT_EQ(arguments.command, "run");
  EXPECT_EQ(arguments.target, "e.yaml");
  EXPECT_EQ(text(arguments.launch.rdzv_endpoint), "--rdzv-endpoint=node1");
}

TEST(LaunchFlags, MayBeSpelledWithUnderscores) {
  EXPECT_EQ(text(parse({"e.yaml", "--nproc_per_node", "2"}).launch.nproc_per_node), "--nproc-per-node=2");
  EXPECT_EQ(text(parse({"e.yaml", "--max_restarts=2"}).launch.max_restarts), "--max-restarts=2");
  EXPECT_EQ(text(parse({"e.yaml", "--rdzv_id=my_job"}).launch.rdzv_id), "--rdzv-id=my_job");
}

TEST(LaunchFlags, HaveShortNames) {
  const auto flags = parse({"e.yaml", "-n", "4", "-g", "8", "-nr", "3"}).launch;
  EXPECT_EQ(text(flags.nnodes), "--nnodes=4");
  EXPECT_EQ(text(flags.nproc_per_node), "--nproc-per-node=8");
  EXPECT_EQ(text(flags.node_rank), "--node-rank=3");
  EXPECT_EQ(text(parse({"e.yaml", "-nr=3"}).launch.node_rank), "--node-rank=3");
  const auto longer = parse({"e.yaml", "--nodes", "4", "--gpus=8", "--nr", "3", "--epochs", "2", "seed=1"});
  EXPECT_EQ(text(longer.launch.nnodes), "--nnodes=4");
  EXPECT_EQ(text(longer.launch.nproc_per_node), "--nproc-per-node=8");
  EXPECT_EQ(text(longer.launch.node_rank), "--node-rank=3");
  EXPECT_EQ(longer.overrides, (std::vector<std::string>{"trainer.max_epochs=2", "seed=1"}));
  EXPECT_EQ(parse({"e.yaml", "--epochs=2"}).overrides, std::vector<std::string>{"trainer.max_epochs=2"});
}

TEST(LaunchFlags, OverridesKeepTheirUnderscores) {
  const auto arguments = parse({"e.yaml", "dataset.train_size=5", "++a_b=--nproc_per_node"});
  EXPECT_THAT(arguments.overrides, ::testing::ElementsAre("dataset.train_size=5", "++a_b=--nproc_per_node"));
}

TEST(LaunchFlags, BelongToRunResumeAndEnv) {
  EXPECT_EQ(text(parse({"resume", "outputs/a/latest", "--max-restarts=1"}).launch.max_restarts), "--max-restarts=1");
  EXPECT_EQ(text(parse({"env", "-n", "2"}).launch.nnodes), "--nnodes=2");
  using Words = std::vector<std::string>;
  for (auto words : {Words{"evaluate", "r"}, Words{"predict", "r", "--out=o"}, Words{"export", "r", "--out=o"},
                     Words{"check", "e.yaml"}}) {
    EXPECT_NO_THROW(parse(words)) << words[0];
    words.emplace_back("--nnodes=2");
    EXPECT_THROW(parse(words), Exit) << words[0];
  }
}

TEST(LaunchFlags, EnvTakesNothingElse) {
  EXPECT_TRUE(parse({"env", "--json"}).json);
  EXPECT_THROW(parse({"env", "e.yaml"}), Exit);
}

}  // namespace
}  // namespace ddprun
