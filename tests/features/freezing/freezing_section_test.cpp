// SPDX-License-Identifier: MIT
#include "config/config_fixture.h"
#include "weights/freezing_config.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
