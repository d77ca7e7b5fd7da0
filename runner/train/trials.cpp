// SPDX-License-Identifier: MIT
#include "train/trials.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "train/out_of_memory.h"
#include "train/state_guard.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/types.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>
#include <numeric>
#include <string_view>

namespace ddprun {
namespace {

constexpr double kPrice = 1.1;  // times the time of channels first that channels last may take
constexpr int kTries = 3;
constexpr int64_t kFewSamples = 2, kMostSamples = 32;  // on the CPU
constexpr double kSecondsOfTry = 0.04;                 // on the CPU, as many samples as take no longer
constexpr double kFewConvolutions = 0.1;               // on the CPU, of a forward pass: less is not worth a trial
constexpr double kNever = std::numeric_limits<double>::infinity();

bool has_filters(const Model& model) {
  return std::ranges::any_of(model.parameters(), [](const at::Tensor& parameter) { return parameter.dim() == 4; });
}

void drop_gradients(const Model& model) {
  for (auto& parameter : model.parameters()) parameter.mutable_grad().reset();
}

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// While it exists, adds up what this thread spends in convolutions.
class ConvolutionClock {
 public:
  ConvolutionClock() : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end))) { spent() = 0; }
  ~ConvolutionClock() { at::removeCallback(callback_); }
  ConvolutionClock(const ConvolutionClock&) = delete;
  ConvolutionClock& operator=(const ConvolutionClock&) = delete;

  static double& spent() {  // processor seconds
    thread_local double seconds = 0;
    return seconds;
  }

 private:
  struct Began : at::ObserverContext {
    double at = now(CLOCK_PROCESS_CPUTIME_ID);
  };

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
    if (std::string_view(call.name()) != "aten::convolution") return nullptr;
    return std::make_unique<Began>();
  }
  static void end(const at::RecordFunction&, at::ObserverContext* began) {
    if (began) spent() += now(CLOCK_PROCESS_CPUTIME_ID) - static_cast<Began*>(began)->at;
  }

  at::CallbackHandle callback_;
};

class TrialMicroBatch {
 public:
  explicit TrialMicroBatch(const MemoryFormatTrial& trial) : trial_(trial), precision_(trial.precision) {}

  void load(int64_t samples) {
    std::vector<int64_t> indices(static_cast<size_t>(samples));
    std::iota(indices.begin(), indices.end(), 0);
    batch_ = trial_.dataset.get(Split::kTrain, indices);
    batch_.replace_tensors([&](const at::Tensor& tensor) { return tensor.to(trial_.device); });
  }

  // Returns the share of convolutions in a forward pass on the CPU, which it does.
  double share_of_convolutions() {
    const ConvolutionClock clock;
    const double begin = now(CLOCK_PROCESS_CPUTIME_ID);
    const auto autocast = precision_.autocast();
    trial_.model.step(precision_.converted(batch_), trial_.objective);
    return clock.spent() / (now(CLOCK_PROCESS_CPUTIME_ID) - begin);
  }

  // Returns the seconds of one forward and backward.
  double run(MemoryFormat memory_format) {
    precision_.set_memory_format(memory_format);
    precision_.convert(trial_.model);
    const auto batch = precision_.converted(batch_);
    const auto clock = trial_.backend ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    const double begin = now(clock);
    {
      const auto autocast = precision_.autocast();
      trial_.model.step(batch, trial_.objective).loss.backward();
    }
    if (trial_.backend) trial_.backend->synchronize();
    const double seconds = now(clock) - begin;
    drop_gradients(trial_.model);
    return seconds;
  }

 private:
  const MemoryFormatTrial& trial_;
  Precision precision_;
  Batch batch_;
};

struct TriedSeconds {
  double channels_first = kNever, channels_last = kNever;
};

// The first pass in each memory format allocates what the kernels keep for these sizes, and does not count.
TriedSeconds tried(const MemoryFormatTrial& trial) {
  const StateGuard kept(buffers(trial.model), trial.backend);
  trial.model.train();
  const auto most = std::min(trial.samples, trial.dataset.size(Split::kTrain));
  TrialMicroBatch micro_batch(trial);
  micro_batch.load(trial.backend ? most : std::min(most, kFewSamples));
  if (!trial.backend) {
    if (micro_batch.share_of_convolutions() < kFewConvolutions) return {.channels_first = 0};
    const double few = micro_batch.run(MemoryFormat::kChannelsFirst) / kFewSamples;
    micro_batch.load(std::min(most, std::clamp(static_cast<int64_t>(kSecondsOfTry / few), kFewSamples, kMostSamples)));
  }
  TriedSeconds seconds;
  for (int i = 0; i <= kTries; ++i) {
    for (const auto memory_format : {MemoryFormat::kChannelsFirst, MemoryFormat::kChannelsLast}) {
      const double one = micro_batch.run(memory_format);
      auto& best = memory_format == MemoryFormat::kChannelsLast ? seconds.channels_last : seconds.channels_first;
      if (i > 0) best = std::min(best, one);
    }
  }
  return seconds;
}

}  // namespace

MemoryFormat find_memory_format(const MemoryFormatTrial& trial) {
  const auto shape = trial.dataset.spec().sample_shape;
  if (shape.size() != 3 || !has_filters(trial.model)) return MemoryFormat::kChannelsFirst;
  TriedSeconds seconds{.channels_first = 0};
  try {
    seconds = tried(trial);
  } catch (const std::exception&) {  // including out of memory: a GPU tries a whole batch
    drop_gradients(trial.model);
    if (trial.backend) trial.backend->release_memory();
  }
  auto sums = at::tensor({seconds.channels_first, seconds.channels_last}, at::kDouble);
  trial.communicator.sum(sums);
  const bool last = sums[1].item<double>() <= kPrice * sums[0].item<double>();
  return last ? MemoryFormat::kChannelsLast : MemoryFormat::kChannelsFirst;
}

namespace {

// Returns whether this rank can do it. Errors other than out of memory are the user's or ours, and are rethrown.
bool fits(TrainStep& step, const TrainBatch& item, int64_t samples) {
  try {
    step.try_micro_batch(item, std::min(samples, item.batch.size()));
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
