// SPDX-License-Identifier: MIT
#include "sharing/out_of_memory.h"

#include "base/log.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

namespace ddprun {
namespace {

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

std::string smaller_parts(const TrainerConfig& config, int64_t micro_batch) {
  if (config.shards > 0) {
    const auto more = std::min(2 * config.shards, std::min(config.global_batch, TrainerConfig::kMostShards));
    return more > config.shards ? log::text("trainer.shards=", more, " (in a new run, whose parts are smaller), ") : "";
  }
  const bool is_auto = config.micro_batch == TrainerConfig::kAutoMicroBatch;
  const int64_t now = is_auto ? micro_batch : config.micro_batch;
  if (now > 1) return log::text("trainer.micro_batch=", now / 2, ", ");
  if (now == 0 && !is_auto) return "trainer.micro_batch=auto (the same training, in smaller micro-batches), ";
  return "";
}

}  // namespace

OutOfMemory::OutOfMemory(const std::exception& error, const std::string& during, const std::string& advice,
                         const std::string& held)
    : UserError("out of memory " + during + ": " + first_line(error.what()) + "\n" + held + "Try " + advice + ".") {}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const OutOfMemory*>(&error)) return false;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) || dynamic_cast<const std::bad_alloc*>(&error)) return true;
  constexpr std::array kTexts{"DefaultCPUAllocator: can't allocate memory",
                              "CUDA error: out of memory",
                              "CUDA out of memory",  // a plugin that runs TorchScript throws it as a text
                              "CUBLAS_STATUS_ALLOC_FAILED",
                              "CUDNN_STATUS_ALLOC_FAILED",
                              "FIND was unable to find an engine to execute this computation"};
  const std::string_view text = error.what();
  return std::ranges::any_of(kTexts, [&](std::string_view known) { return text.find(known) != text.npos; });
}

std::string advice_for_steps(const TrainerConfig& config, int64_t micro_batch, int64_t workers, bool may_recompute) {
  std::string advice = smaller_parts(config, micro_batch);
  if (may_recompute) advice += "trainer.recompute=all (the same results; backward computes the model's blocks again), ";
  if (workers > 1 && !config.shard_optimizer)
    advice += "trainer.shard_optimizer=true (the same results; each worker keeps a share of the optimizer's state), ";
  if (config.precision < PrecisionMode::kBf16) advice += "trainer.precision=bf16, ";
  if (!advice.empty()) advice += "or ";
  return log::text(advice, "a smaller model; trainer.global_batch is ", config.global_batch);
}

std::string advice_for_evaluations(int64_t now) {
  if (now == 1) return "a smaller model; trainer.eval_batch is 1 already";
  return log::text("trainer.eval_batch=", now / 2, " (the same results, in smaller batches; it is ", now,
                   " now), or a smaller model");
}

std::string advice_for_all_else() {
  return "a smaller model, or a device with more free memory: nvidia-smi shows what others use of a GPU's, free of the "
         "machine's";
}

void rethrow_with_advice(const std::exception& error, const std::string& during, const std::string& advice,
                         const std::string& held) {
  if (is_out_of_memory(error)) throw OutOfMemory(error, during, advice, held);
  throw;
}

}  // namespace ddprun
