// SPDX-License-Identifier: MIT
#include "config/idle_settings.h"

#include "config/config_fixture.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using IdleSettings = ConfigFixture;

TEST_F(IdleSettings, AreReportedWithTheirPlaceWhereWhatTheyBelongToIsOff) {
  struct Case {
    std::string key, idle, used;
  };
  const std::vector<Case> cases{
      {"trainer.loss_scale", "trainer: {loss_scale: 8}", "trainer: {loss_scale: 8, precision: fp16}"},
      {"trainer.limit_train_batches", "trainer: {limit_train_batches: 8, overfit_batches: 2}",
       "trainer: {limit_train_batches: 8}"},
      {"trainer.limit_val_batches", "trainer: {limit_val_batches: 8, overfit_batches: 2}",
       "trainer: {limit_val_batches: 8}"},
      {"trainer.prefetch_batches", "trainer: {prefetch_batches: 4, prefetch_threads: 0}",
       "trainer: {prefetch_batches: 4}"},
      {"schedule.warmup_from", "schedule: {name: cosine, warmup_from: 0.1}",
       "schedule: {name: cosine, warmup_from: 0.1, warmup: 5ep}"},
      {"schedule.reference_batch", "schedule: {reference_batch: 8}",
       "schedule: {reference_batch: 8, lr_scaling: linear}"},
      {"early_stopping.hold", "early_stopping: {hold: 2}", "early_stopping: {hold: 2, target: 0.9}"},
      {"early_stopping.min_delta", "early_stopping: {min_delta: 0.1, target: 0.9}", "early_stopping: {min_delta: 0.1}"},
      {"histograms.bins", "histograms: {every: never, bins: 8}", "histograms: {bins: 8}"},
      {"predictions.log_images_per_batch", "predictions: {num_batches_to_log: 0, log_images_per_batch: 8}",
       "predictions: {log_images_per_batch: 8}"},
      {"profile.steps", "profile: {steps: 10..20}\ntrainer: {max_steps: 9}",
       "profile: {steps: 10..20}\ntrainer: {max_steps: 10}"},
      {"launch.restart_seconds", "launch: {restart_seconds: 5}", "launch: {restart_seconds: 5, max_restarts: 1}"},
      {"early_stopping.monitor", "early_stopping: {monitor: val/loss}\ntrainer: {eval_every: never}",
       "early_stopping: {monitor: val/loss}"},
  };
  for (const auto& [key, idle, used] : cases) {
    EXPECT_THAT(idle_settings(loaded(kMinimal + idle + "\n")),
                ElementsAre(testing::AllOf(testing::StartsWith("e.yaml:"), HasSubstr(": " + key + ": "))))
        << idle;
    EXPECT_THAT(idle_settings(loaded(kMinimal + used + "\n")), IsEmpty()) << used;
  }
}

TEST_F(IdleSettings, WhatFollowsAMetricThatIsNotMeasuredIsReported) {
  const auto all = loaded(kMinimal + "early_stopping: {}\ncheckpoint: {monitor: val/loss}\nschedule: plateau\n");
  EXPECT_THAT(idle_monitors(all, true, true), IsEmpty());
  EXPECT_THAT(idle_monitors(all, false, true), SizeIs(3));
  EXPECT_THAT(
      idle_monitors(all, false, false),
      ElementsAre(
          HasSubstr("checkpoint.monitor: val/loss is not measured, since the dataset has neither a validation nor "
                    "a test split: no checkpoint becomes the best"),
          HasSubstr("early_stopping.monitor: val/accuracy is not measured"), HasSubstr("the lr never falls")));
  EXPECT_THAT(idle_monitors(loaded(kMinimal), false, false), IsEmpty());
}

}  // namespace
}  // namespace ddprun
