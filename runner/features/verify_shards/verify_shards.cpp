// SPDX-License-Identifier: MIT
// trainer.verify_shards: compares samples of the ranks, and proves at each epoch's end that theirs together were the
// epoch.
#include "features/verify_shards/shard_check.h"
#include "features/verify_shards/verify_shards_section.h"
#include "step/context.h"
#include "train/feature.h"
#include "weights/state_guard.h"

#include <optional>

namespace ddprun {
namespace {

class VerifyShards final : public Feature {
 public:
  explicit VerifyShards(const Context& context) {
    const StateGuard kept({}, context.backend.get());  // a dataset may draw
    require_same_samples(*context.dataset, context.communicator);
  }

  void before_first_step(Loop& loop) override {
    const auto& context = loop.context;
    check_.emplace(context.communicator, context.dataset,
                   step_plan(context.experiment.trainer, loop.state.train_samples), loop.state.step);
  }
  void computed(Loop& /*loop*/, const TrainBatch& batch, const StepOutcome* /*outcome*/) override {
    check_->add(batch);
  }
  void after_evaluation(Loop& loop, const NamedValues& /*metrics*/) override {
    const auto step = loop.state.step;
    if (loop.plan.is_epoch_end(step)) check_->check(loop.plan.epoch_of(step), loop.context.experiment);
  }

 private:
  std::optional<ShardCheck> check_;
};

}  // namespace

std::unique_ptr<Feature> make_verify_shards(const Context& context, const TrainPlan& /*plan*/) {
  return context.experiment.features.of<VerifyShardsConfig>().on ? std::make_unique<VerifyShards>(context) : nullptr;
}

}  // namespace ddprun
