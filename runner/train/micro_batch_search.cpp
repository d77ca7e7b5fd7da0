// SPDX-License-Identifier: MIT
#include "train/micro_batch_search.h"

#include "base/log.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

namespace ddprun {
namespace {

// Whether this rank can do it. Another error than memory is the user's or ours, and is thrown.
bool fits(TrainStep& step, const TrainBatch& item, int64_t samples) {
  try {
    step.try_micro_batch(item, std::min(samples, item.batch.size()));
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    return false;
  }
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// The samples of one pass; 0 where not even one fits.
int64_t try_passes(TrainStep& step, const TrainBatch& item, Communicator& communicator, DeviceBackend* backend) {
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
  step.with_memory_of_a_step([&] { found = try_passes(step, item, communicator, backend); });
  if (found > 0) return found;
  throw UserError(
      "trainer.micro_batch: not even one sample of the training fits into the memory of every worker; take a smaller "
      "model or smaller samples");
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) || dynamic_cast<const std::bad_alloc*>(&error)) return true;
  constexpr std::array kTexts{"DefaultCPUAllocator: can't allocate memory", "CUDA error: out of memory",
                              "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
                              "FIND was unable to find an engine to execute this computation"};
  const std::string_view text = error.what();
  return std::ranges::any_of(kTexts, [&](std::string_view known) { return text.find(known) != text.npos; });
}

std::string out_of_memory_text(const std::exception& error, int64_t step, const TrainerConfig& config) {
  std::string advice = "trainer.micro_batch=auto (the same training, in smaller passes)";
  if (config.micro_batch > 0) advice = log::text("trainer.micro_batch=", std::max<int64_t>(1, config.micro_batch / 2));
  if (config.precision < PrecisionMode::kBf16) advice += ", trainer.precision=bf16";
  return log::text("out of memory in step ", step, ": ", first_line(error.what()), "\nTry ", advice,
                   ", or a smaller model. trainer.global_batch is ", config.global_batch, ".");
}

}  // namespace ddprun
