// SPDX-License-Identifier: MIT
#include "config/config_fixture.h"
#include "config/sections.h"
#include "features/histograms/histograms_section.h"
#include "features/profile/profile_section.h"

#include <algorithm>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using ReadExperiment = ConfigFixture;

TEST_F(ReadExperiment, ReadsAllSections) {
  const auto e = loaded(
      "name: mnist\nseed: 42\nmodel: {plugin: convnet, dropout: 0.5}\ndataset: {plugin: mnist}\n"
      "optimizer: {plugin: sgd, lr: 0.01, momentum: 0.5}\nloggers: [console, {plugin: tensorboard, histograms: true}]\n"
      "objective: {name: cross_entropy, smoothing: 0.1}\n"
      "trainer: {max_epochs: 9, global_batch: 128, precision: fp32, deterministic: true}\n"
      "early_stopping: {monitor: val/accuracy, mode: max, patience: 5, min_delta: 0.001, target: 0.99}\n"
      "checkpoint: {every: 200st, keep: 7, monitor: val/loss, resume: auto}\n"
      "predictions: {num_batches_to_log: 2, log_images_per_batch: 5}\n"
      "launch: {workers: 4, device: cpu, threads: 2, timeout_seconds: 60, requeue: true}\n"
      "resources: {nodes: 2, gpus: 4, cpus_per_worker: 8, memory: 64Gi, time: 2h, slurm: [--partition=accel], "
      "container: c.sif}\nrun: {dir: out}\n");
  EXPECT_EQ(e.name, "mnist");
  EXPECT_EQ(e.seed, 42U);
  EXPECT_EQ(e.model.plugin, "convnet");
  EXPECT_EQ(e.model.path, "model");
  EXPECT_EQ(e.model.origin.text(), "e.yaml:3:17");
  EXPECT_EQ(to_yaml(e.model.options, false), "dropout: 0.5\n");
  ASSERT_EQ(e.loggers.size(), 2U);
  EXPECT_EQ(e.loggers[1].plugin, "tensorboard");
  EXPECT_EQ(e.loggers[1].path, "loggers[1]");
  EXPECT_EQ(e.objective.plugin, "cross_entropy");
  EXPECT_EQ(to_yaml(e.objective.options, false), "smoothing: 0.1\n");
  EXPECT_EQ(e.trainer.max_epochs, 9);
  EXPECT_EQ(e.trainer.global_batch, 128);
  EXPECT_TRUE(e.trainer.deterministic);
  ASSERT_TRUE(e.early_stopping);
  EXPECT_EQ(e.early_stopping->patience, 5);
  EXPECT_EQ(e.early_stopping->min_delta, 0.001);
  EXPECT_EQ(e.early_stopping->target, 0.99);
  EXPECT_EQ(e.checkpoint.every.steps, 200);
  EXPECT_EQ(e.checkpoint.keep, 7);
  EXPECT_FALSE(e.checkpoint.maximize);
  EXPECT_EQ(e.checkpoint.resume, Resume::kAuto);
  EXPECT_EQ(e.predictions.batches, 2);
  EXPECT_EQ(e.predictions.images_per_batch, 5);
  EXPECT_EQ(e.launch.workers, 4);
  EXPECT_EQ(e.launch.device, Device::kCpu);
  EXPECT_EQ(e.launch.threads, 2);
  EXPECT_EQ(e.launch.timeout_seconds, 60);
  EXPECT_TRUE(e.launch.requeue);
  EXPECT_EQ(e.resources.nodes, 2);
  EXPECT_EQ(e.resources.gpus, 4);
  EXPECT_EQ(e.resources.cpus_per_worker, 8);
  EXPECT_EQ(e.resources.memory, "64G");
  EXPECT_EQ(e.resources.seconds, 7200);
  EXPECT_EQ(e.resources.slurm, std::vector<std::string>{"--partition=accel"});
  EXPECT_EQ(e.resources.container, "c.sif");
  EXPECT_EQ(e.run_dir, "out");
}

TEST_F(ReadExperiment, RefusesWhatASectionCannotMeanWithItsPlace) {
  const auto folder = StartsWith("e.yaml:4:7: name: expected the name of a folder");
  const auto steps =
      HasSubstr("e.yaml:4:18: profile.steps: expected the first and the last step, such as 10..20, found");
  expect_load_refuses({
      {"seed: '7'\n", "e.yaml:4:7: seed: expected int, found \"7\""},
      {"seed: ${sed}\n", "e.yaml:4:7: seed: ${sed}: no such key"},  // ${seed} would be a cycle
      {"name: a/b\n", folder},
      {"name: ..\n", folder},
      {"name: .hidden\n", folder},
      {"name: ''\n", folder},
      {"name: \"a\\nb\"\n", folder},
      {"trainr: {}\n",
       StartsWith("e.yaml:4:1: trainr: unknown key; did you mean trainer? known: callbacks, checkpoint, ")},
      {"trainer:\n  max_epoch: 3\n", "e.yaml:5:3: trainer.max_epoch: unknown key; did you mean max_epochs?"},
      {"trainer: 3\ncheckpoint: [1]\n",
       "e.yaml:4:10: trainer: expected a map of options, found \"3\"\n"
       "e.yaml:5:13: checkpoint: expected a map of options, found a list"},
      {"objective: [a]\n", "e.yaml:4:12: objective: expected {name: cross_entropy}, found a list"},
      {"loggers:\n", "e.yaml:4:1: loggers: expected a list such as [console, csv], found null; [] for none"},
      {"loggers: [csv, {plugin: tb, images: true}, csv, {plugin: tb}]\n",
       "e.yaml:4:44: loggers[2]: csv is loggers[0] already, with the same options; remove one"},
      {"trainer: {strategy: fsdp}\n", HasSubstr("ddp")},
      {"trainer: {global_batch: 64, batch_per_worker: 2}\n",
       HasSubstr("trainer.batch_per_worker: cannot be combined with global_batch; remove one")},
      {"trainer: {global_batch: 2}\nlaunch: {workers: 3}\n",
       "e.yaml:4:25: trainer.global_batch: 2 samples cannot be shared by 3 workers (launch.workers): each needs one"},
      {"launch: {workers: 65}\n",
       "e.yaml:4:19: trainer.global_batch: 64 samples cannot be shared by 65 workers (launch.workers): each needs one"},
      {"trainer: {shards: 65}\n",
       "e.yaml:4:19: trainer.shards: 65 shards of a batch of 64 samples (global_batch): each needs one"},
      {"trainer: {shards: 4}\nlaunch: {workers: 5}\n",
       "e.yaml:4:19: trainer.shards: 4 shards cannot be shared by 5 workers (launch.workers): each needs one"},
      {"trainer: {shards: 4}\nlaunch: {workers: 2, nodes: '1:3'}\n",
       "e.yaml:4:19: trainer.shards: 4 shards cannot be shared by 6 workers on up to 3 nodes (launch.workers, "
       "launch.nodes): each needs one"},
      {"launch: {workers: 0, threads: many}\n",
       "e.yaml:4:19: launch.workers: expected auto or int 1 .. 1024, found \"0\"\n"
       "e.yaml:4:31: launch.threads: expected auto or int 1 .. 1024, found \"many\""},
      {"early_stopping: {monitor: accuracy}\n",
       "e.yaml:4:27: early_stopping.monitor: expected train/ or val/ and a metric, such as val/accuracy, found "
       "\"accuracy\""},
      {"early_stopping: {patience: 0}\n", HasSubstr("there is no target, so nothing would stop the run")},
      {"checkpoint: {every: 5}\n",
       "e.yaml:4:21: checkpoint.every: expected 1ep, 200st, 10min, 30s, 2h or never, found \"5\""},
      {"profile: {steps: 10}\n", steps},
      {"profile: {steps: 0..3}\n", steps},
      {"profile: {steps: 7..5}\n", steps},
      {"profile: {steps: a..b}\n", steps},
      {"profile: {steps: 1..5000}\n", "e.yaml:4:18: profile.steps: expected at most 1000 steps, found 1..5000"},
      {"resources: {memory: 64 GB}\n", HasSubstr("resources.memory: expected a whole number with M, G")},
      {"resources: {memory: 30Ki}\n", HasSubstr("Mi, Gi, Ti")},
      {"resources: {time: soon}\n", HasSubstr("resources.time: expected 90min, 2h")},
      {"resources: {slurm: [partition=accel]}\n", HasSubstr("resources.slurm: expected sbatch options")},
      {"resources: {nodes: 3}\nlaunch: {nodes: 2}\n",
       HasSubstr("resources.nodes: 3, but launch.nodes says 2; leave one of them out")},
  });
}

TEST_F(ReadExperiment, ReportsAllMistakesAtOnceAndNothingTwice) {
  EXPECT_EQ(load_error(kMinimal + "seed: -1\ntrainer: {max_epochs: many, global_batch: 0}\nlaunch: {device: gpu}\n"
                                  "seed: 2\n"),
            "e.yaml:7:1: seed: written twice; first at e.yaml:4:1\n"
            "e.yaml:4:7: seed: expected int >= 0, found -1\n"
            "e.yaml:5:23: trainer.max_epochs: expected int, found \"many\"\n"
            "e.yaml:5:43: trainer.global_batch: expected int 1 .. 1000000000, found 0\n"
            "e.yaml:6:18: launch.device: expected auto | cpu | cuda, found \"gpu\"");
  EXPECT_EQ(load_error("seed: 1\n"),
            "e.yaml:1:1: model: missing; write model: {plugin: NAME}\n"
            "e.yaml:1:1: dataset: missing; write dataset: {plugin: NAME}\n"
            "e.yaml:1:1: optimizer: missing; write optimizer: {plugin: NAME}");
  EXPECT_EQ(load_error("model: {hidden: 3}\ndataset: [a]\noptimizer: {plugin: [a]}\nloggers: [{x: 1}, [a]]\n"),
            "e.yaml:1:8: model.plugin: missing; write the plugin's name\n"
            "e.yaml:2:10: dataset: expected a plugin, found a list; write dataset: {plugin: NAME}\n"
            "e.yaml:3:21: optimizer.plugin: expected a name or the path of a .so, found a list\n"
            "e.yaml:4:11: loggers[0].plugin: missing; write the plugin's name\n"
            "e.yaml:4:19: loggers[1]: expected a plugin, found a list; write loggers[1]: {plugin: NAME}");
  EXPECT_THAT(load_error("model: m\ndataset: d\noptimiser: {plugin: o}\n"),
              AllOf(StartsWith("e.yaml:3:1: optimiser: unknown key; did you mean optimizer? known: "),
                    Not(HasSubstr("optimizer: missing"))));
}

TEST_F(ReadExperiment, HasADefaultForEverythingButThePlugins) {
  const auto e = loaded(kMinimal);
  EXPECT_EQ(e.name, "e");
  EXPECT_EQ(e.seed, 0U);
  EXPECT_EQ(e.objective.plugin, "cross_entropy");
  EXPECT_EQ(e.trainer.max_epochs, 10);
  EXPECT_EQ(e.trainer.global_batch, 64);
  EXPECT_EQ(e.trainer.strategy, Strategy::kDdp);
  EXPECT_EQ(e.trainer.shards, 0);
  EXPECT_FALSE(e.early_stopping);
  EXPECT_EQ(e.checkpoint.every.epochs, 1);
  EXPECT_EQ(e.predictions.batches, 0);
  EXPECT_EQ(e.launch.workers, 0);
  EXPECT_TRUE(e.run_dir.empty());
  std::vector<std::string> loggers;
  for (const auto& logger : e.loggers) loggers.push_back(logger.plugin);
  EXPECT_THAT(loggers, ElementsAre("console", "csv", "jsonl"));
}

TEST_F(ReadExperiment, ReadsTheSameFromTheFrozenConfig) {
  const auto e = loaded(kMinimal + "early_stopping: {target: null}\n", {"trainer.max_epochs=3", "seed=9"});
  write("config.yaml", to_yaml(e.config, true));
  std::vector<std::string> problems;
  const auto again = read_experiment(load_yaml("config.yaml"), problems);
  EXPECT_THAT(problems, ElementsAre());
  EXPECT_EQ(again.name, "e");
  EXPECT_EQ(again.seed, 9U);
  EXPECT_EQ(again.trainer.max_epochs, 3);
  EXPECT_EQ(again.loggers.size(), 3U);
}

TEST_F(ReadExperiment, TakesTheHomeThatAShellLeavesInAnOverride) {
  const char* home = std::getenv("HOME");
  ASSERT_NE(home, nullptr);
  EXPECT_EQ(loaded(kMinimal, {"run.dir=~/runs/a"}).run_dir, std::string(home) + "/runs/a");
  EXPECT_EQ(loaded(kMinimal, {"run.dir=runs/~a"}).run_dir, "runs/~a");
}

TEST_F(ReadExperiment, PrefersLessOfALoss) {
  EXPECT_FALSE(loaded(kMinimal + "early_stopping: {monitor: val/loss}\n").early_stopping->maximize);
  EXPECT_TRUE(loaded(kMinimal + "early_stopping: {monitor: val/loss, mode: max}\n").early_stopping->maximize);
  EXPECT_TRUE(loaded(kMinimal + "early_stopping: {}\n").early_stopping->maximize);
}

TEST_F(ReadExperiment, TakesBackATargetWithNull) {
  write("experiments/base.yaml", kMinimal + "early_stopping: {target: 0.9, patience: 7}\n");
  const auto e = loaded("defaults: [base]\nearly_stopping: {target: null}\n");
  EXPECT_EQ(e.early_stopping->patience, 7);
  EXPECT_FALSE(e.early_stopping->target);
}

TEST_F(ReadExperiment, TakesWhatIsAllowedJustSo) {
  EXPECT_EQ(loaded(kMinimal + "trainer: {batch_per_worker: 2}\nlaunch: {workers: 300}\n").trainer.global_batch_of(300),
            600);
  EXPECT_EQ(loaded(kMinimal + "resources: {nodes: 3}\nlaunch: {nodes: \"1:4\"}\n").resources.nodes, 3);
  EXPECT_EQ(loaded(kMinimal + "early_stopping: {target: 0.9}\n").early_stopping->patience, 0);
  EXPECT_EQ(loaded(kMinimal + "trainer: {strategy: dp, verify_shards: true}\n").trainer.strategy, Strategy::kDp);
  EXPECT_EQ(loaded(kMinimal + "trainer: {shards: 64}\nlaunch: {workers: 64}\n").trainer.shards, 64);
  EXPECT_TRUE(loaded(kMinimal + "trainer: {shards: 8}\n").trainer.deterministic);
  EXPECT_TRUE(loaded(kMinimal + "trainer: {shards: 8, deterministic: true}\n").trainer.deterministic);
  EXPECT_TRUE(loaded(kMinimal + "checkpoint: {every: never}\n").checkpoint.every.none());
}

TEST_F(ReadExperiment, TakesEachDefaultAsItIsDeclared) {
  for (const auto& section : experiment_keys()) {
    if (section.name == "schedule") continue;  // each schedule has keys of its own
    for (const auto& key : section.keys) {
      if (key.fallback.empty()) continue;
      const auto path = section.name.empty() ? key.name : section.name + "." + key.name;
      EXPECT_EQ(load_error(kMinimal + "early_stopping: {target: 1}\n", {"++" + path + "=" + key.fallback}), "") << path;
    }
  }
}

TEST_F(ReadExperiment, HistogramsAndATraceAreThereOnlyWhereAskedFor) {
  EXPECT_TRUE(loaded(kMinimal).features.of<HistogramsConfig>().every.none());
  EXPECT_EQ(loaded(kMinimal).features.of<ProfileConfig>().steps.last, 0);
  EXPECT_EQ(loaded(kMinimal + "histograms: {}\n").features.of<HistogramsConfig>().every.epochs, 1);
  const auto asked = loaded(kMinimal + "histograms: {every: 200st, bins: 8}\nprofile: {steps: 5..7, ranks: 1}\n");
  EXPECT_EQ(asked.features.of<HistogramsConfig>().every.steps, 200);
  EXPECT_EQ(asked.features.of<HistogramsConfig>().bins, 8);
  EXPECT_EQ(asked.features.of<ProfileConfig>().steps.first, 5);
  EXPECT_EQ(asked.features.of<ProfileConfig>().steps.last, 7);
}

TEST(ExperimentKeys, ListsEverySectionWithHelp) {
  std::vector<std::string> names;
  for (const auto& section : experiment_keys()) {
    names.push_back(section.name);
    EXPECT_FALSE(section.help.empty());
    for (const auto& key : section.keys) EXPECT_FALSE(key.help.empty()) << section.name << "." << key.name;
  }
  EXPECT_THAT(names, ElementsAre("", "dataset", "trainer", "pretrained", "schedule", "early_stopping", "checkpoint",
                                 "predictions", "histograms", "profile", "record", "launch", "resources", "run"));
}

TEST(ExperimentKeys, GivesTypeDefaultAndRange) {
  const auto sections = experiment_keys();
  const auto key = [&](const std::string& section, const std::string& name) {
    const auto& keys = std::ranges::find(sections, section, &SectionHelp::name)->keys;
    return *std::ranges::find(keys, name, &OptionDeclaration::name);
  };
  EXPECT_EQ(key("", "model").type, "plugin");
  EXPECT_EQ(key("", "loggers").type, "list of plugin");
  EXPECT_EQ(key("trainer", "max_epochs").type, "int");
  EXPECT_EQ(key("trainer", "max_epochs").fallback, "10");
  EXPECT_EQ(key("trainer", "max_epochs").range, "1 .. 1000000000");
  EXPECT_EQ(key("early_stopping", "target").fallback, "");
  EXPECT_EQ(key("launch", "timeout_seconds").fallback, "1800");
}

}  // namespace
}  // namespace ddprun
