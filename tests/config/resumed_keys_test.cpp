// SPDX-License-Identifier: MIT
#include "config/resumed_keys.h"

#include "config/config_fixture.h"
#include "config/schema.h"

#include <map>
#include <set>
#include <sstream>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using By = FixedKey::By;
const std::set<By> kAll{By::kFolder, By::kCheckpoint, By::kSubmit};

// The keys that a resumed run obeys, by section: a key that is new to the schema belongs here or to fixed_keys().
const std::map<std::string, std::string> kObeyed{
    {"", "model dataset optimizer objective loggers callbacks plugin_path"},
    {"dataset", "resident"},
    {"trainer",
     "max_epochs max_steps max_time limit_train_batches limit_val_batches limit_test_batches overfit_batches "
     "fast_dev_run shuffle sampling micro_batch recompute eval_batch eval_every log_every system_metrics_seconds "
     "prefetch_threads prefetch_batches precision memory_format fused_layers cuda_graph clip_norm clip_value ema_decay "
     "mixup cutmix sync_batchnorm strategy find_unused_parameters static_graph broadcast_buffers gradient_compression "
     "shard_optimizer deterministic on_nonfinite verify_shards peak_tflops"},
    {"pretrained", "freeze unfreeze layer_decay"},
    {"schedule",
     "name warmup warmup_from lr_scaling reference_batch every gamma milestones per end_lr length pct_start div_factor "
     "final_div_factor anneal factor patience threshold cooldown min_lr from to"},
    {"early_stopping", "patience min_delta target hold"},
    {"checkpoint", "every keep async only_trainable"},
    {"predictions", "num_batches_to_log log_images_per_batch"},
    {"histograms", "every bins"},
    {"profile", "steps ranks shapes memory"},
    {"record", "steps without operator"},
    {"launch",
     "workers device backend threads bind timeout_seconds hang_seconds max_restarts restart_seconds grace_seconds "
     "end_margin_seconds requeue nodes join_seconds node_timeout_seconds address token_file"},
};

std::set<std::string> obeyed() {
  std::set<std::string> found;
  for (const auto& [section, keys] : kObeyed) {
    std::istringstream words(keys);
    for (std::string key; words >> key;) found.insert(section.empty() ? key : section + "." + key);
  }
  return found;
}

// Compared by the worker with the checkpoint's own numbers (TrainState.*).
const std::set<std::string> kCompared{"trainer.global_batch", "trainer.batch_per_worker"};

bool is_fixed(const std::string& path) {
  return std::ranges::any_of(fixed_keys(), [&](const FixedKey& fixed) {
    return path == fixed.key || path.starts_with(std::string(fixed.key) + ".");
  });
}

class ResumedKeys : public ConfigFixture {
 protected:
  std::vector<std::string> changes(const std::string& text, const std::vector<std::string>& overrides) const {
    return ignored_changes(loaded(kMinimal + text), loaded(kMinimal + text, overrides), kAll);
  }
};

TEST_F(ResumedKeys, AreRefusedWhereARunsExperimentIsLoadedToContinue) {
  write("run/config.yaml", kMinimal + "run: {dir: elsewhere}\n");
  const auto problems = [](const std::vector<std::string>& overrides, const std::set<By>& fixed) {
    Problems found;
    load_experiment({.experiment = "run/config.yaml", .overrides = overrides, .frozen = true}, found, fixed);
    return found;
  };
  EXPECT_THAT(problems({"seed=7"}, kAll), ElementsAre(HasSubstr("command line: seed=7: seed: a resumed run cannot")));
  EXPECT_THAT(problems({"seed=7"}, {By::kFolder}), IsEmpty()) << "nothing but checkpoints fix it";
  EXPECT_THAT(problems({"seed=7"}, {}), IsEmpty()) << "it does not continue";
  EXPECT_THAT(problems({"checkpoint.resume=auto", "run.dir=run"}, kAll), IsEmpty()) << "that is what it does";
  EXPECT_THAT(problems({"run.dir=another"}, kAll), ElementsAre(HasSubstr("run.dir: a resumed run cannot")));
  EXPECT_THAT(problems({"seed=7", "trainer.clip_nrm=1"}, kAll), ElementsAre(HasSubstr("clip_nrm")));
}

TEST_F(ResumedKeys, EachDeclaredKeyIsObeyedOrFixedAndNoneIsBoth) {
  const Schema schema;
  for (const auto& path : schema.paths()) {
    if (schema.is_section(path) || path == "schedule") continue;  // their keys follow
    if (path == "defaults") continue;                             // works only in files
    const int sets = int{is_fixed(path)} + int{obeyed().contains(path)} + int{kCompared.contains(path)};
    EXPECT_EQ(sets, 1) << path
                       << ": does a resumed run obey it? Then it belongs to the list of this test, otherwise to "
                          "fixed_keys()";
  }
}

TEST_F(ResumedKeys, WhatTheListsNameIsDeclared) {
  const auto paths = Schema().paths();
  const std::set<std::string> declared(paths.begin(), paths.end());
  for (const auto& key : obeyed()) EXPECT_TRUE(declared.contains(key)) << key;
  for (const auto& fixed : fixed_keys()) EXPECT_TRUE(declared.contains(fixed.key)) << fixed.key;
}

TEST_F(ResumedKeys, EachFixedKeyIsRefusedWithItsPlace) {
  const std::vector<std::pair<std::string, std::string>> overrides{
      {"name=another", ""},
      {"seed=3", ""},
      {"run.dir=elsewhere", ""},
      {"resources.gpus=2", ""},
      {"trainer.shards=8", ""},
      {"trainer.loss_scale=8", ""},
      {"trainer.sanity_batches=2", ""},
      {"pretrained.file=/w.safetensors", ""},
      {"pretrained.rename={a: b}", "pretrained: {file: /w}\n"},
      {"pretrained.skip=[fc.*]", "pretrained: {file: /w}\n"},
      {"checkpoint.resume=/other", ""},
      {"checkpoint.monitor=val/f1", ""},
      {"checkpoint.mode=min", ""},
      {"early_stopping.monitor=val/f1", "early_stopping: {}\n"},
      {"early_stopping.mode=min", "early_stopping: {}\n"},
      {"schedule.monitor=train/loss", "schedule: plateau\n"},
      {"schedule.mode=max", "schedule: plateau\n"},
  };
  std::set<std::string> tried;
  for (const auto& [override, text] : overrides) {
    const auto found = changes(text, {override});
    ASSERT_THAT(found, SizeIs(1)) << override;
    EXPECT_THAT(found[0], testing::StartsWith("command line: " + override + ": ")) << override;
    EXPECT_THAT(found[0], HasSubstr(": a resumed run cannot change it: "));
    tried.insert(override.substr(0, override.find('=')));
  }
  for (const auto& fixed : fixed_keys())
    EXPECT_TRUE(std::ranges::any_of(tried, [&](const auto& key) { return key.starts_with(fixed.key); })) << fixed.key;
}

TEST_F(ResumedKeys, TheSameValueIsNoChange) {
  EXPECT_THAT(
      changes("seed: 3\npretrained: {file: /w}\n", {"seed=3", "pretrained.file=/w", "checkpoint.resume=never",
                                                    "trainer.sanity_batches=1", "checkpoint.mode=max", "name=e"}),
      IsEmpty());
}

TEST_F(ResumedKeys, WhatWasNotFollowedBeforeMayBeFollowedNow) {
  EXPECT_THAT(changes("", {"early_stopping.monitor=val/loss", "schedule=plateau"}), IsEmpty());
  EXPECT_THAT(changes("early_stopping: {monitor: val/loss}\n", {"~early_stopping"}), IsEmpty());
}

TEST_F(ResumedKeys, AnotherMonitorMayHaveAnotherDefaultMode) {
  EXPECT_THAT(changes("", {"checkpoint.monitor=val/loss"}),
              ElementsAre(HasSubstr("checkpoint.monitor: a resumed run cannot change it")));
}

TEST_F(ResumedKeys, TheFirstWeightsMayLieElsewhereIfCheckpointsLeaveThemOut) {
  const std::string text = "pretrained: {file: /w}\n", with_key = text + "checkpoint: {only_trainable: true}\n";
  EXPECT_THAT(changes(with_key, {"pretrained.file=/moved", "pretrained.skip=[fc.*]"}), IsEmpty());
  EXPECT_THAT(changes(with_key, {"pretrained.file=/moved", "checkpoint.only_trainable=false"}), IsEmpty());
  EXPECT_THAT(changes(text, {"pretrained.file=/moved"}), SizeIs(1));
}

TEST_F(ResumedKeys, OnlyWhatIsAskedForCounts) {
  const auto recorded = loaded(kMinimal), now = loaded(kMinimal, {"seed=3", "name=n", "resources.gpus=1"});
  EXPECT_THAT(ignored_changes(recorded, now, {By::kFolder}), ElementsAre(HasSubstr(": name: ")));
  EXPECT_THAT(ignored_changes(recorded, now, {By::kCheckpoint}), ElementsAre(HasSubstr(": seed: ")));
}

TEST_F(ResumedKeys, OfARunThatTrainsNoMoreThoseOfTheTrainingAreReported) {
  const auto changed = [&](const std::string& before, const std::string& after) {
    return changes_of_training(composed(before), composed(after));
  };
  EXPECT_THAT(changed("optimizer: {plugin: sgd, lr: 0.1}\n", "optimizer: {plugin: sgd, lr: 0.2}\n"),
              ElementsAre("optimizer.lr"));
  EXPECT_THAT(changed("trainer: {ema_decay: 0.9}\n", "trainer: {max_steps: 9, eval_batch: 3}\nmodel: {plugin: m}\n"),
              ElementsAre("model.plugin", "trainer.ema_decay"));
  EXPECT_THAT(changed("pretrained: {file: a}\ncheckpoint: {only_trainable: true}\n",
                      "pretrained: {file: b}\ncheckpoint: {only_trainable: true}\n"),
              IsEmpty());
  EXPECT_THAT(changed("callbacks: [a]\n", "callbacks: [a, b]\ndataset: {root: x}\n"), ElementsAre("callbacks"));
}

}  // namespace
}  // namespace ddprun
