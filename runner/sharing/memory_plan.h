// SPDX-License-Identifier: MIT
// How much memory a worker's training takes, estimated before it: weights, gradients, the optimizer's state, averages,
// and what grows with the samples that are computed at once. Measured in small steps on the CPU. It is what tensors
// take: kernels of a GPU need workspace besides, and allocators keep what was freed.
#pragma once

#include "config/experiment.h"

#include <ddprun/model.h>
#include <ddprun/optimizer.h>
#include <ddprun/safetensors.h>

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

// What one step with so many samples takes besides the gradients that are complete, which grow while the activations
// go. In bytes.
struct StepMemory {
  struct Stretch {
    int64_t peak = 0;
    int64_t gradients = 0;  // complete by then
  };
  int64_t samples = 0;
  int64_t forward = 0;             // when backward begins
  std::vector<Stretch> stretches;  // up to the first gradient, from each to the next, and after the last
};

// In bytes.
struct Activations {
  int64_t bytes = 0, per_sample = 0;  // the most, and what another sample adds to it
  int64_t with_gradients = 0;         // the most with the gradients that are complete by then
};

// All in bytes.
struct MemoryPlan {
  int64_t weights = 0;  // and buffers
  int64_t gradients = 0, optimizer = 0, averages = 0;
  int64_t sharing = 1;  // workers that share optimizer and averages (trainer.shard_optimizer); the most of one counts
  std::vector<StepMemory> steps = {};  // measured, from few samples to many; empty: without what a step takes
  bool keeps_gradients = true;         // has all of them from the step's beginning on, not as backward completes them
  int64_t saved = 0;  // by a worker, in a checkpoint: weights, optimizer, averages; less what it leaves out

  void share(int64_t workers, double largest);  // `largest` of all is one worker's

  int64_t held() const { return weights + gradients + optimizer + averages; }
  Activations activations(int64_t samples) const;
  int64_t total(int64_t samples) const;
};

// Measures what this thread's tensors on the CPU take, those that are made while it lives, also by its backward passes.
class TensorMemory {
 public:
  TensorMemory();
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  int64_t now() const;  // bytes; those that are still there
  int64_t take_peak();  // bytes; the most at once since the last call

  // From here on so many bytes of what is there do not count.
  void leave_out(int64_t bytes);

 private:
  class Counter;
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard listening_;
};

// Returns what the optimizer's state will take, from one step in which a few small parameters have gradients of zeros.
// Its parameters are those of its groups.
int64_t optimizer_bytes(Optimizer& optimizer);

// Plans the training of this model. `loss_of(samples)` computes the loss of so many samples: of 2, of 4 and, while the
// gradients of its weights hide what a sample takes, of four times as many, up to 4096. Leaves no gradients.
MemoryPlan plan_memory(Model& model, Optimizer& optimizer, const TrainerConfig& config,
                       const std::function<at::Tensor(int64_t)>& loss_of);

// Returns the plan of what a worker holds between its steps, without what a step takes; the optimizer's state and the
// averages are those that there are.
MemoryPlan held_memory(const Model& model, const OptimizerState& optimizer, const TensorDict& averages);

// Returns the most samples that a worker computes at once, of `parts` workers or GPUs.
int64_t samples_at_once(const TrainerConfig& config, int64_t parts);

// Returns whether a worker has all gradients while it computes those of some samples: views of the buckets in which it
// exchanges them with others, or sums over the samples before.
bool keeps_gradients(const TrainerConfig& config, int64_t parts);

// Returns "4.1 GB: weights 498 MB, gradients 498 MB, optimizer 996 MB, activations 2.1 GB (64 samples at once,
// 33 MB each)", or "optimizer 249 MB (shared by 4 workers)", or "activations ..., of which 1.6 GB go before all
// gradients are there".
std::string text_of(const MemoryPlan& plan, int64_t samples);

// Returns what processes take besides, in the host's memory, while they write a checkpoint and training continues
// (checkpoint.async): ", and 2 GB more of worker 0 while it saves", and with a shared optimizer ", 1 GB of each other".
std::string saving_text(const MemoryPlan& plan);

// Returns "2 GB: weights 498 MB, gradients 498 MB, optimizer 996 MB", without activations.
std::string held_text(const MemoryPlan& plan);

}  // namespace ddprun
