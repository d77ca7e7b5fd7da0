// SPDX-License-Identifier: MIT
#include "config/rivals.h"

#include "config/config_fixture.h"

namespace ddprun {
namespace {

using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using Rivals = ConfigFixture;

// Two settings that one place may not have together, as they are written in a file.
struct Pair {
  std::string section, one, other, other_section = section;
};

std::vector<Pair> pairs() {
  return {{"trainer", "global_batch: 32", "batch_per_worker: 8"},
          {"trainer", "clip_norm: 1", "clip_value: 0.5"},
          {"trainer", "find_unused_parameters: true", "static_graph: True"},
          {"trainer", "sampling: {balance: class}", "shuffle: false"},
          {"trainer", "sampling: {balance: class}", "overfit_batches: 2"},
          {"trainer", "strategy: dp", "sync_batchnorm: true"},
          {"trainer", "strategy: dp", "find_unused_parameters: true"},
          {"trainer", "strategy: dp", "static_graph: true"},
          {"trainer", "strategy: dp", "gradient_compression: bf16"},
          {"trainer", "strategy: dp", "broadcast_buffers: every_step"},
          {"trainer", "strategy: dp", "shard_optimizer: true"},
          {"trainer", "shards: 8", "strategy: dp"},
          {"trainer", "shards: 8", "sync_batchnorm: true"},
          {"trainer", "shards: 8", "micro_batch: auto"},
          {"trainer", "shards: 8", "gradient_compression: bf16"},
          {"trainer", "shards: 8", "static_graph: true"},
          {"trainer", "shards: 8", "batch_per_worker: 8"},
          {"trainer", "shards: 8", "deterministic: false"},
          {"resources", "cpus_per_node: 8", "cpus_per_worker: 2"},
          {"resources", "nodes: 4", "nodes: 2", "launch"}};
}

std::string file_with(const std::string& section, const std::string& setting) {
  return section + ": {" + setting + "}\n";
}

std::string override_of(const std::string& section, const std::string& setting) {
  return section + "." + setting.substr(0, setting.find(':')) + "=" + setting.substr(setting.find(": ") + 2);
}

std::string key_of(const std::string& section, const std::string& setting) {
  return section + "." + setting.substr(0, setting.find(':'));
}

TEST_F(Rivals, AKeyOfTheCommandLineDisplacesThatOfTheFile) {
  for (const auto& [section, one, other, other_section] : pairs()) {
    for (const bool turned : {false, true}) {
      const auto [file, loser] = turned ? std::pair(other_section, other) : std::pair(section, one);
      const auto [there, winner] = turned ? std::pair(section, one) : std::pair(other_section, other);
      const auto experiment = loaded(kMinimal + file_with(file, loser), {override_of(there, winner)});
      EXPECT_FALSE(find_at(experiment.config, *parse_key_path(key_of(file, loser)))) << loser << " by " << winner;
      EXPECT_TRUE(find_at(experiment.config, *parse_key_path(key_of(there, winner))));
    }
  }
}

TEST_F(Rivals, ALaterFileDisplacesWhatIsInAnEarlierOne) {
  for (const auto& [section, one, other, other_section] : pairs()) {
    write("experiments/base.yaml", kMinimal + file_with(section, one));
    const auto experiment = loaded("defaults: [experiments/base]\n" + other_section + ": {" + other + "}\n");
    EXPECT_FALSE(find_at(experiment.config, *parse_key_path(key_of(section, one)))) << one << " by " << other;
  }
}

TEST_F(Rivals, TwoInOnePlaceAreRefusedAndTheKeyOfOneIsNamed) {
  for (const auto& [section, one, other, other_section] : pairs()) {
    const auto both = section == other_section ? file_with(section, one + ", " + other)
                                               : file_with(section, one) + file_with(other_section, other);
    const auto named = AnyOf(ContainsRegex("e.yaml:[0-9:]+ " + key_of(section, one) + ": "),
                             ContainsRegex("e.yaml:[0-9:]+ " + key_of(other_section, other) + ": "));
    EXPECT_THAT(load_error(kMinimal + both), named) << one << " with " << other;
    EXPECT_NE(load_error(kMinimal, {override_of(section, one), override_of(other_section, other)}), "")
        << one << " with " << other;
  }
}

TEST_F(Rivals, ADisplacedKeyIsShownBesideTheOneThatTookItsPlace) {
  const auto config = composed("trainer: {batch_per_worker: 32}\n", {"trainer.global_batch=512"});
  EXPECT_THAT(
      to_yaml(config, /*origins=*/true),
      HasSubstr("  global_batch: 512  # command line: trainer.global_batch=512, in place of batch_per_worker: 32 "
                "(e.yaml:1:29)\n"));
}

TEST_F(Rivals, WhatAsksForNothingDisplacesNothing) {
  EXPECT_EQ(composed_yaml("trainer: {global_batch: 64}\n", {"trainer.batch_per_worker=0"}),
            "trainer:\n  global_batch: 64\n  batch_per_worker: 0\n");
  EXPECT_EQ(composed_yaml("trainer: {sampling: {balance: class}}\n", {"trainer.shuffle=true"}),
            "trainer:\n  sampling:\n    balance: class\n  shuffle: true\n");
}

TEST_F(Rivals, AReferenceAsksForSomething) {
  EXPECT_EQ(composed_yaml("seed: 8\ntrainer: {global_batch: 64}\n", {"trainer.batch_per_worker=${seed}"}),
            "seed: 8\ntrainer:\n  batch_per_worker: 8\n");
}

TEST_F(Rivals, NoDefaultStandsForWhatIsDisplacedOrDecidedByItsRival) {
  const std::string file = kMinimal + "resources: {nodes: 2}\ntrainer: {max_steps: '${trainer.global_batch}', ";
  EXPECT_THAT(load_error(file + "batch_per_worker: 8}\n"),
              HasSubstr("trainer.max_steps: ${trainer.global_batch} is not set: trainer.batch_per_worker is, in its "
                        "place (e.yaml:"));
  EXPECT_THAT(load_error(file + "global_batch: 8}\n", {"trainer.batch_per_worker=4"}),
              HasSubstr("is not set: trainer.batch_per_worker is, in its place (command line: "));
  EXPECT_THAT(load_error(file + "global_batch: 8}\n", {"launch.nodes=${resources.nodes}"}),
              HasSubstr("${resources.nodes} is not set: launch.nodes is, in its place"));
  EXPECT_EQ(loaded(file + "clip_norm: 1}\n").trainer.max_steps, 64);
}

TEST_F(Rivals, AWholeSectionAndAFileOfAGroupDisplaceToo) {
  write("trainer/small.yaml", "batch_per_worker: 4\n");
  EXPECT_EQ(composed_yaml("trainer: {global_batch: 64}\n", {"trainer={batch_per_worker: 4}"}),
            "trainer:\n  batch_per_worker: 4\n");
  EXPECT_EQ(composed_yaml("trainer: {global_batch: 64}\n", {"trainer=small"}), "trainer:\n  batch_per_worker: 4\n");
  EXPECT_EQ(composed_yaml("trainer: {global_batch: 64}\n", {"trainer=small", "trainer.global_batch=8"}),
            "trainer:\n  global_batch: 8\n");
}

TEST_F(Rivals, RemovingWhatIsDisplacedAlreadyIsNoMistake) {
  for (const auto& overrides : {std::vector<std::string>{"~trainer.global_batch", "trainer.batch_per_worker=4"},
                                {"trainer.batch_per_worker=4", "~trainer.global_batch"}})
    EXPECT_EQ(composed_yaml("trainer: {global_batch: 64}\n", overrides), "trainer:\n  batch_per_worker: 4\n");
}

}  // namespace
}  // namespace ddprun
