// SPDX-License-Identifier: MIT
// pretrained.freeze and pretrained.unfreeze (weights/freezing.h).
#include "weights/freezing.h"

#include "base/log.h"
#include "step/context.h"
#include "train/feature.h"
#include "train/progress_log.h"

namespace ddprun {
namespace {

class FreezingFeature final : public Feature {
 public:
  FreezingFeature(const Context& context, const TrainPlan& plan)
      : freezing_(context.models(), context.experiment.features.of<FreezingConfig>(), plan.steps_per_epoch()) {
    if (!context.is_rank_zero()) return;
    for (const auto& warning : freezing_.warnings(plan.max_steps())) log::warn(warning);
  }

  bool choose_parameters(int64_t step) override {
    return step == kWidest ? freezing_.enter_last() : freezing_.enter(step);
  }
  std::optional<bool> ever_trains(const std::string& parameter) const override {
    return freezing_.decides(parameter) ? std::optional(freezing_.ever_trains(parameter)) : std::nullopt;
  }
  void parameters_changed(Loop& loop) override {
    loop.log.event("unfrozen", freezing_.text());
    if (loop.context.is_rank_zero()) log::info("pretrained.unfreeze: " + freezing_.text());
  }
  void start(Loop& loop) override {
    if (freezing_.is_used() && loop.context.is_rank_zero()) log::info("pretrained.freeze: " + freezing_.text());
  }

 private:
  Freezing freezing_;
};

}  // namespace

std::unique_ptr<Feature> make_freezing(const Context& context, const TrainPlan& plan) {
  return std::make_unique<FreezingFeature>(context, plan);
}

}  // namespace ddprun
