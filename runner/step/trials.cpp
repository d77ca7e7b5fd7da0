// SPDX-License-Identifier: MIT
#include "step/trials.h"

#include "base/log.h"
#include "plugin_host/plugin_call.h"

namespace ddprun {

void warm_up_reducer(const Context& context, TrainStep& step, const TrainBatch& batch) {
  const Trial trial(context);
  step.warm_up(batch);
}

void rehearse_smallest_part(const Context& context, TrainStep& step, int64_t train_samples,
                            const std::function<const TrainBatch*()>& next_batch) {
  const auto& config = context.experiment.trainer;
  const auto plan = step_plan(config, train_samples);
  const auto smallest = [&](int64_t of_step) {
    return plan.smallest_part(of_step, context.communicator.world().size, step.micro_batch(), config.sync_batchnorm);
  };
  const auto samples = smallest(plan.steps_per_epoch() - 1);
  if (samples >= smallest(0)) return;
  const auto* batch = next_batch();
  if (!batch || batch->size() < samples) return;
  const Trial trial(context);
  rehearsed(samples, [&] { step.compute_alone(*batch, samples); });
}

void rehearsed(int64_t samples, const std::function<void()>& rehearsal) try {
  rehearsal();
} catch (const FromPlugin& error) {
  throw PluginMistake(
      {error.section,
       log::text(
           error.problem, ". This was a rehearsal with ", samples, samples == 1 ? " sample" : " samples",
           ", the fewest that a worker has at once, perhaps in the last batch of an epoch. Choose another "
           "trainer.global_batch, micro_batch or shards, or leave that batch out with trainer.limit_train_batches")});
}

}  // namespace ddprun
