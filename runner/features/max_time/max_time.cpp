// SPDX-License-Identifier: MIT
// trainer.max_time: the run is complete once its training steps have taken so long, by the clock of any rank.
#include "features/max_time/max_time_section.h"
#include "step/context.h"
#include "train/feature.h"
#include "train/progress_log.h"

namespace ddprun {
namespace {

class MaxTime final : public Feature {
 public:
  explicit MaxTime(double seconds) : seconds_(seconds) {}

  bool votes(Loop& loop) override { return loop.log.train_seconds() >= seconds_; }
  void elected(Loop& loop) override { loop.state.end(RunStatus::kCompleted, "trainer.max_time is over"); }
  bool stays(const Loop& loop, RunStatus ended) const override {
    return ended == RunStatus::kCompleted && loop.state.train_seconds >= seconds_;
  }

 private:
  double seconds_;
};

}  // namespace

std::unique_ptr<Feature> make_max_time(const Context& context, const TrainPlan& /*plan*/) {
  const auto seconds = context.experiment.features.of<MaxTimeConfig>().seconds;
  return seconds > 0 ? std::make_unique<MaxTime>(seconds) : nullptr;
}

}  // namespace ddprun
