// SPDX-License-Identifier: MIT
#include "features/memory/memory_trials.h"

#include "base/log.h"
#include "plugin_host/plugin_call.h"
#include "sharing/out_of_memory.h"

#include <ddprun/error.h>

#include <torch/types.h>

#include <algorithm>
#include <vector>

namespace ddprun {
namespace {

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

// Calls `trial` while memory is held as during training: the optimizer's state, averages. Restores weights, optimizer
// and averages, which have made no step yet.
void with_memory_of_a_step(const Context& context, TrainStep& step, const std::function<void()>& trial) {
  const torch::NoGradGuard no_gradients;
  const auto parameters = trainable_parameters(*context.model);
  std::vector<at::Tensor> weights;  // on the host, to take no device memory
  for (const auto& parameter : parameters) {
    weights.push_back(on_host(parameter.value));
    parameter.value.mutable_grad() = at::zeros_like(parameter.value.detach());
  }
  step.share().drop_others_gradients(parameters);
  auto before = context.optimizer->state();
  for (auto& [name, tensor] : before) tensor = on_host(tensor);
  in_plugin({"optimizer", "step"}, [&] { context.optimizer->step(); });
  step.ema().update({});
  for (const auto& parameter : parameters) parameter.value.mutable_grad().reset();
  {
    const torch::AutoGradMode with_gradients(true);
    trial();
  }
  in_plugin({"optimizer", "load_state"}, [&] { context.optimizer->load_state(before); });
  step.ema().load_state({});
  for (size_t i = 0; i < weights.size(); ++i) parameters[i].value.copy_(weights[i]);
}

// Returns whether this rank can do it. Errors other than out of memory are the user's or ours, and are rethrown.
bool fits(TrainStep& step, const TrainBatch& batch, int64_t samples) {
  try {
    step.compute_alone(batch, std::min(samples, batch.size()));
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    return false;
  }
}

int64_t share_of(const Context& context, const TrainBatch& batch) {
  const int64_t world = context.communicator.world().size;
  return (batch.global_samples + world - 1) / world;
}

// Returns the samples of a micro-batch; 0 if not even one fits.
int64_t try_micro_batches(const Context& context, TrainStep& step, const TrainBatch& batch) {
  for (int64_t samples = share_of(context, batch); samples >= 1; samples = samples == 1 ? 0 : (samples + 1) / 2) {
    const bool mine = fits(step, batch, samples);
    if (context.backend) context.backend->release_memory();
    auto failed = at::scalar_tensor(mine ? 0 : 1, at::kInt);
    context.communicator.sum(failed);
    if (failed.item<int>() == 0) return samples;
  }
  return 0;
}

// Has all blocks be computed again if little fits without, and more with it. Returns what fits.
int64_t try_with_blocks(const Context& context, TrainStep& step, const TrainBatch& batch, Recomputation& blocks,
                        int64_t found) {
  constexpr int64_t kLeast = 4;  // of the part fits, or the step takes longer for many micro-batches than for blocks
  if (!blocks.is_auto() || found * kLeast >= share_of(context, batch) || !blocks.choose_all()) return found;
  const auto more = try_micro_batches(context, step, batch);
  if (more > found) return more;
  blocks.choose_none();
  return found;
}

}  // namespace

int64_t find_micro_batch(const Context& context, TrainStep& step, const TrainBatch& batch, Recomputation& blocks) {
  const Trial trial(context);
  int64_t found = 0;
  with_memory_of_a_step(context, step, [&] {
    found = try_micro_batches(context, step, batch);
    found = try_with_blocks(context, step, batch, blocks, found);
  });
  const auto whole = share_of(context, batch);
  if (found > 0 && found < whole && context.is_rank_zero())
    log::info(log::text("trainer.micro_batch: auto found ", found, " samples of a worker's ", whole,
                        ": their gradients are accumulated, the global batch stays ", batch.global_samples));
  if (found > 0) return found;
  throw UserError(
      "trainer.micro_batch: not even one training sample fits into the memory of every worker. Try " +
      advice_for_steps(context.experiment.trainer, 0, context.communicator.world().size, blocks.could_choose()) +
      "; or smaller samples");
}

void ask_for_blocks(const Context& context, TrainStep& step, const TrainBatch& batch, Recomputation& blocks) {
  const Trial trial(context);
  const auto samples = std::min<int64_t>(2, batch.size());
  if (fits(step, batch, samples)) return;
  blocks.choose_any();
  step.compute_alone(batch, samples);
}

void compare_blocks(const Context& context, TrainStep& step, const TrainBatch& batch) {
  const Trial trial(context);
  const ComparedBlocks compared;
  if (!fits(step, batch, std::min<int64_t>(2, batch.size())))
    log::info(
        "trainer.recompute: the blocks were not tried before training, since without it not even two samples fit into "
        "memory");
}

}  // namespace ddprun
