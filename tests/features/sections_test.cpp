// SPDX-License-Identifier: MIT
// Keys of features, in the section trainer or in their own, which are read as the core's are.
#include "config/config_fixture.h"
#include "features/max_time/max_time_section.h"
#include "features/system_rows/system_rows_section.h"
#include "features/verify_shards/verify_shards_section.h"
#include "features/work/work_section.h"
#include "weights/freezing_config.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using TrainerKeys = ConfigFixture;

TEST_F(TrainerKeys, OfFeaturesAreReadIntoTheirStructs) {
  const auto set =
      loaded(kMinimal + "trainer: {max_time: 90min, system_metrics_seconds: 0, verify_shards: true, peak_tflops: 3}\n");
  EXPECT_EQ(set.features.of<MaxTimeConfig>().seconds, 5400);
  EXPECT_EQ(set.features.of<SystemRowsConfig>().seconds, 0);
  EXPECT_TRUE(set.features.of<VerifyShardsConfig>().on);
  EXPECT_EQ(set.features.of<WorkConfig>().peak_tflops, 3);
  const auto absent = loaded(kMinimal);
  EXPECT_EQ(absent.features.of<MaxTimeConfig>().seconds, 0);
  EXPECT_EQ(absent.features.of<SystemRowsConfig>().seconds, 5);
  EXPECT_FALSE(absent.features.of<VerifyShardsConfig>().on);
  EXPECT_EQ(absent.features.of<WorkConfig>().peak_tflops, 0);
}

TEST_F(TrainerKeys, OfFeaturesAreCheckedWithThoseOfTheCore) {
  EXPECT_EQ(load_error(kMinimal + "trainer: {peak_tflops: -1, max_epochs: 0, verify_shard: true}\n"),
            "e.yaml:4:40: trainer.max_epochs: expected int 1 .. 1000000000, found 0\n"
            "e.yaml:4:24: trainer.peak_tflops: expected float 0 .. 1e+09, found -1\n"
            "e.yaml:4:43: trainer.verify_shard: unknown key; did you mean verify_shards?");
}

class ReadFreezing : public ConfigFixture {
 protected:
  std::string error(const std::string& section) const { return load_error(kMinimal + "pretrained: " + section + "\n"); }
};

TEST_F(ReadFreezing, ReadsItsKeysAndTheRunItselfReadsThemAgain) {
  const auto text = kMinimal + "pretrained: {freeze: \"layer[12].*\", unfreeze: {5: \"layer2.*\", 300st: [\"*\"]}}\n";
  write("frozen.yaml", to_yaml(composed(text), true));
  for (const auto& experiment : {loaded(text), load_experiment({.experiment = "frozen.yaml"})}) {
    const auto& freezing = experiment.features.of<FreezingConfig>();
    EXPECT_THAT(freezing.freeze.patterns, ElementsAre("layer[12].*"));
    EXPECT_THAT(freezing.freeze.place, HasSubstr("pretrained.freeze: "));
    ASSERT_EQ(freezing.unfreeze.size(), 2U);
    EXPECT_EQ(freezing.unfreeze[0].after.epochs, 5);
    EXPECT_EQ(freezing.unfreeze[1].after.steps, 300);
  }
}

TEST_F(ReadFreezing, TakesChangesOfTheCommandLine) {
  const auto text = kMinimal + "pretrained: {freeze: [conv1.*], unfreeze: {2ep: conv1.*}}\n";
  const auto experiment = loaded(text, {"pretrained.unfreeze.4ep=\"conv1.bias\"", "pretrained.freeze=\"*.weight\""});
  const auto& changed = experiment.features.of<FreezingConfig>();
  EXPECT_THAT(changed.freeze.patterns, ElementsAre("*.weight"));
  ASSERT_EQ(changed.unfreeze.size(), 2U);
  EXPECT_EQ(changed.unfreeze[1].after.epochs, 4);
  EXPECT_THAT(load_error(text, {"pretrained.freeze.x=y"}), HasSubstr("pretrained.freeze"));
}

TEST_F(ReadFreezing, RefusesWhatItCannotMean) {
  EXPECT_THAT(error("{unfreeze: {5ep: a}}"), HasSubstr("pretrained.unfreeze: nothing is frozen"));
  EXPECT_THAT(error("{freeze: a, unfreeze: {5min: a}}"),
              HasSubstr("expected epochs or steps such as 5ep or 800st, found"));
  EXPECT_THAT(error("{freeze: {a: b}}"), HasSubstr("pretrained.freeze: expected a pattern such as"));
  EXPECT_THAT(error("{unfreezes: a}"), HasSubstr("did you mean unfreeze?"));
}

}  // namespace
}  // namespace ddprun
