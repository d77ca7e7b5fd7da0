// SPDX-License-Identifier: MIT
#include "train/micro_batch_search.h"

#include "base/log.h"
#include "train/out_of_memory.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace ddprun {
namespace {

// Returns whether this rank can do it. Errors other than out of memory are the user's or ours, and are rethrown.
bool fits(TrainStep& step, const TrainBatch& item, int64_t samples) {
  try {
    step.try_micro_batch(item, std::min(samples, item.size()));
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    return false;
  }
}

// Returns the samples of a micro-batch; 0 if not even one fits.
int64_t try_micro_batches(TrainStep& step, const TrainBatch& item, Communicator& communicator, DeviceBackend* backend) {
  const int64_t world = communicator.world().size;
  const int64_t whole = (item.global_samples + world - 1) / world;
  for (int64_t samples = whole; samples >= 1; samples = samples == 1 ? 0 : (samples + 1) / 2) {
    const bool mine = fits(step, item, samples);
    if (backend) backend->release_memory();
    auto failed = at::scalar_tensor(mine ? 0 : 1, at::kInt);
    communicator.sum(failed);
    const auto ranks = failed.item<int>();
    if (ranks == 0) {
      if (samples < whole && communicator.world().rank == 0) {
        log::info(log::text("trainer.micro_batch: auto found ", samples, " samples of a worker's ", whole,
                            ": their gradients are accumulated, the global batch stays ", item.global_samples));
      }
      return samples;
    }
  }
  return 0;
}

}  // namespace

int64_t find_micro_batch(TrainStep& step, const TrainBatch& item, Communicator& communicator, DeviceBackend* backend) {
  int64_t found = 0;
  step.with_memory_of_a_step([&] { found = try_micro_batches(step, item, communicator, backend); });
  if (found > 0) return found;
  throw UserError(
      "trainer.micro_batch: not even one training sample fits into the memory of every worker; use a smaller model or "
      "smaller samples");
}

}  // namespace ddprun
