// SPDX-License-Identifier: MIT
// The sections schedule and pretrained.
#include "config/config_fixture.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReadSchedule : public ConfigFixture {
 protected:
  ScheduleConfig read(const std::string& schedule) const {
    return loaded(kMinimal + "schedule: " + schedule + "\n").schedule;
  }
};

TEST_F(ReadSchedule, ReadsTheOptionsOfItsNameAndIsConstantByDefault) {
  EXPECT_EQ(loaded(kMinimal).schedule.kind, ScheduleKind::kConstant);
  EXPECT_EQ(read("cosine").kind, ScheduleKind::kCosine);
  const auto cosine =
      read("{name: cosine, warmup: 5ep, end_lr: 1e-5, per: epoch, lr_scaling: linear, reference_batch: 128}");
  EXPECT_EQ(cosine.warmup.epochs, 5);
  EXPECT_EQ(cosine.end_lr, 1e-5);
  EXPECT_TRUE(cosine.per_epoch);
  EXPECT_EQ(cosine.reference_batch, 128);
  const auto steps = read("{name: multistep, milestones: [60ep, 20000st], gamma: 0.2}");
  ASSERT_EQ(steps.milestones.size(), 2U);
  EXPECT_EQ(steps.milestones[1].steps, 20'000);
  EXPECT_EQ(read("{name: plateau, monitor: val/accuracy}").maximize, true);
}

TEST_F(ReadSchedule, RefusesWhatItsNameDoesNotKnow) {
  expect_load_refuses({
      {"schedule: {name: cosin}\n", HasSubstr("schedule.name: expected constant | step")},
      {"schedule: {name: cosine, gamma: 0.1}\n", HasSubstr("schedule.gamma: unknown key")},
      {"schedule: {name: multistep}\n", HasSubstr("schedule.milestones")},
      {"schedule: {name: multistep, milestones: [60]}\n",
       HasSubstr("expected epochs or steps such as 60ep or 20000st, found \"60\"")},
      {"schedule: {name: one_cycle, warmup: 5ep}\n", HasSubstr("schedule.warmup: one_cycle has a warm-up of its own")},
      {"schedule: {name: range_test, from: 1, to: 0.1}\n", HasSubstr("schedule.to: expected more than `from`")},
      {"schedule: {name: range_test, warmup: 5ep}\n", HasSubstr("schedule.warmup: range_test has none")},
  });
}

TEST_F(ReadSchedule, AnotherNameReplacesTheWholeSection) {
  const auto e = loaded(kMinimal + "schedule: {name: step, every: 3ep}\n", {"schedule=cosine"});
  EXPECT_EQ(e.schedule.kind, ScheduleKind::kCosine);
}

using ReadPretrained = ConfigFixture;

TEST_F(ReadPretrained, ReadsAllItsKeysAndTheRunItselfReadsThemAgain) {
  const auto text = kMinimal +
                    "pretrained: {file: w.safetensors, rename: {\"^module\\\\.\": \"\", \"^(a|b)\\\\.\": \"x.$1.\"}, "
                    "skip: [fc.*], layer_decay: 0.75}\n";
  write("frozen.yaml", to_yaml(composed(text), true));
  for (const auto& pretrained : {loaded(text).pretrained, load_experiment({.experiment = "frozen.yaml"}).pretrained}) {
    EXPECT_EQ(pretrained.file, folder_ / "w.safetensors");
    ASSERT_EQ(pretrained.rename.size(), 2U);
    EXPECT_EQ(pretrained.rename[0].pattern, "^module\\.");
    EXPECT_EQ(pretrained.rename[1].replacement, "x.$1.");
    EXPECT_THAT(pretrained.skip.patterns, ElementsAre("fc.*"));
    EXPECT_EQ(pretrained.layer_decay, 0.75);
  }
}

TEST_F(ReadPretrained, RefusesWhatItCannotMean) {
  expect_load_refuses({
      {"pretrained: {rename: {\"(\": x}, file: f}\n",
       HasSubstr("pretrained.rename: \"(\" is not a regular expression")},
      {"pretrained: {rename: {\"(a)\": \"\\\\1\"}, file: f}\n", HasSubstr("the first group is $1 here, not \\1")},
      {"pretrained: {skip: [fc.*]}\n",
       HasSubstr("pretrained.skip: concerns the weights of pretrained.file, which is not")},
      {"pretrained: {layer_decay: 1.5}\n", HasSubstr("pretrained.layer_decay")},
      {"pretrained: {fil: f}\n", HasSubstr("did you mean file?")},
  });
}

}  // namespace
}  // namespace ddprun
