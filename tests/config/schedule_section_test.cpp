// SPDX-License-Identifier: MIT
#include "config/config_fixture.h"

namespace ddprun {
namespace {

using testing::HasSubstr;

class ReadSchedule : public ConfigFixture {
 protected:
  std::string error(const std::string& schedule) const { return load_error(kMinimal + "schedule: " + schedule + "\n"); }
  ScheduleConfig read(const std::string& schedule) const {
    return loaded(kMinimal + "schedule: " + schedule + "\n").schedule;
  }
};

TEST_F(ReadSchedule, IsConstantByDefault) { EXPECT_EQ(loaded(kMinimal).schedule.kind, ScheduleKind::kConstant); }

TEST_F(ReadSchedule, HasAShortForm) { EXPECT_EQ(read("cosine").kind, ScheduleKind::kCosine); }

TEST_F(ReadSchedule, ReadsTheOptionsOfItsName) {
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
  EXPECT_THAT(error("{name: cosin}"), HasSubstr("schedule.name: expected constant | step"));
  EXPECT_THAT(error("{name: cosine, gamma: 0.1}"), HasSubstr("schedule.gamma: unknown key"));
  EXPECT_THAT(error("{name: multistep}"), HasSubstr("schedule.milestones"));
  EXPECT_THAT(error("{name: multistep, milestones: [60]}"),
              HasSubstr("expected epochs or steps such as 60ep or 20000st, found \"60\""));
  EXPECT_THAT(error("{name: one_cycle, warmup: 5ep}"),
              HasSubstr("schedule.warmup: one_cycle has a warm-up of its own"));
  EXPECT_THAT(error("{name: range_test, from: 1, to: 0.1}"), HasSubstr("schedule.to: expected more than `from`"));
  EXPECT_THAT(error("{name: range_test, warmup: 5ep}"), HasSubstr("schedule.warmup: range_test has none"));
}

TEST_F(ReadSchedule, AnotherNameReplacesTheWholeSection) {
  const auto e = loaded(kMinimal + "schedule: {name: step, every: 3ep}\n", {"schedule=cosine"});
  EXPECT_EQ(e.schedule.kind, ScheduleKind::kCosine);
}

}  // namespace
}  // namespace ddprun
