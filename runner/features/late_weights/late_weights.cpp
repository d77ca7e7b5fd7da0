// SPDX-License-Identifier: MIT
// With trainer.shard_optimizer: a model that says it waits for weights must do so, which is tried on two samples, or
// the one of the batch, on this rank only (sharing/late_weights.h).
#include "sharing/late_weights.h"

#include "metrics/objective.h"
#include "plugin_host/plugin_call.h"
#include "step/context.h"
#include "step/trials.h"
#include "train/feature.h"

#include <algorithm>

namespace ddprun {
namespace {

class LateWeights final : public Feature {
 public:
  void before_first_step(Loop& loop) override {
    const auto* batch = loop.next_batch();
    if (!batch) return;
    const auto& context = loop.context;
    const Trial trial(context);
    const auto made = batch->made();
    const auto some = context.precision.converted(part_of_batch(made, {0, std::min<int64_t>(2, made.size())}));
    require_waits(*context.model, [&] {
      const auto autocast = context.precision.autocast();
      return call_step(*context.model, some, context.objective).loss;
    });
  }
};

}  // namespace

std::unique_ptr<Feature> make_late_weights(const Context& context, const TrainPlan& /*plan*/) {
  return context.experiment.trainer.shard_optimizer ? std::make_unique<LateWeights>() : nullptr;
}

}  // namespace ddprun
