// SPDX-License-Identifier: MIT
// The batches of a run, prefetched: training batches by global step, evaluation batches by rank.
#pragma once

#include "base/world.h"
#include "config/experiment.h"
#include "data/checked_split.h"
#include "data/prefetcher.h"
#include "data/sample_order.h"
#include "imaging/image_batcher.h"

#include <ddprun/dataset.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace ddprun {

Batch part_of_batch(const Batch& batch, Slice slice);

// Its input and target; the index stays on the CPU.
Batch on_device(Batch batch, c10::Device device);

// A rank's part of one global batch, on its device.
struct TrainBatch {
  Batch batch;
  int64_t epoch = 0;           // counted from 0
  int64_t global_samples = 0;  // in the whole global batch
  // What this rank's mean loss counts for in the mean over ranks that the gradient reducer takes: local * world /
  // global, so that the gradient is the mean over the global batch. 0 for a rank without a sample in a ragged last
  // batch: it computes on a sample of another rank and adds nothing.
  double weight = 1;
};

// How the experiment cuts an epoch of so many samples into steps.
StepPlan step_plan(const TrainerConfig& config, int64_t samples);

// Endless training batches from `first_step` on, steps counted over all epochs. One consumer. With `images`, those of
// the training split, they make the batches; else the dataset's get() and augment() do.
class TrainLoader {
 public:
  TrainLoader(std::shared_ptr<const Dataset> dataset, const TrainerConfig& config, uint64_t seed, World world,
              c10::Device device, int64_t first_step, std::shared_ptr<const ImageBatcher> images = nullptr);

  int64_t steps_per_epoch() const { return plan_.steps_per_epoch(); }
  TrainBatch next();

 private:
  TrainBatch load(int64_t step);
  Batch load_batch(std::span<const int64_t> numbers, int64_t epoch) const;
  std::shared_ptr<const std::vector<int64_t>> order_of(int64_t epoch);

  std::shared_ptr<const Dataset> dataset_;
  StepPlan plan_;
  uint64_t seed_;
  bool shuffle_;
  World world_;
  c10::Device device_;
  std::shared_ptr<const ImageBatcher> images_;  // null: none
  CheckedSplit split_;
  std::mutex order_mutex_;
  int64_t cached_epoch_ = -1;
  std::shared_ptr<const std::vector<int64_t>> cached_order_;
  std::unique_ptr<Prefetcher<TrainBatch>> prefetcher_;
};

// One pass over a split, or its first batches: every sample once, in batches that are the same at any world size, dealt
// out to the ranks in turn, so that a sample's prediction does not depend on how many ranks there are.
class EvalLoader {
 public:
  EvalLoader(std::shared_ptr<const Dataset> dataset, Split split, int64_t batch, const Limit& limit,
             const TrainerConfig& config, World world, c10::Device device,
             std::shared_ptr<const ImageBatcher> images = nullptr);

  int64_t rounds() const { return rounds_; }  // the same on all ranks: what the busiest rank has
  bool has_next() const { return !prefetcher_->done(); }
  Batch next();

 private:
  int64_t rounds_;
  c10::Device device_;
  std::shared_ptr<const ImageBatcher> images_;  // of the split; null: none
  std::unique_ptr<Prefetcher<Batch>> prefetcher_;
};

}  // namespace ddprun
