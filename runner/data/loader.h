// SPDX-License-Identifier: MIT
// The batches of a run, prefetched: training batches by global step, evaluation batches by rank.
#pragma once

#include "base/world.h"
#include "config/experiment.h"
#include "data/checked_split.h"
#include "data/copy_stream.h"
#include "data/mixing.h"
#include "data/prefetcher.h"
#include "data/sample_order.h"
#include "imaging/image_batcher.h"

#include <ddprun/dataset.h>

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// Returns these samples of a batch, as views of it.
Batch part_of_batch(const Batch& batch, Slice slice);

// One of the parts of a global batch that are computed alone (trainer.shards): it has the same tensors, shapes and
// alignment on whatever rank it is loaded.
struct Shard {
  int64_t number = 0;  // in the global batch
  Batch batch;         // on the device
  double weight = 1;   // of its mean loss in that of the global batch
};

// A rank's part of one global batch: on its device or, with `images`, still to be made there.
struct TrainBatch {
  Batch batch;                 // with `images` or shards, its index alone
  int64_t epoch = 0;           // counted from 0
  int64_t global_samples = 0;  // in the whole global batch
  // The weight of this rank's mean loss in the mean over ranks that the gradient reducer takes: local * world / global,
  // so that the gradient is the mean over the global batch. It is 0 for a rank without a sample in a ragged last batch,
  // which computes on a sample of another rank, or on the first shard, and adds nothing.
  double weight = 1;
  int64_t step = 0;                                      // counted from 0, over all epochs
  std::shared_ptr<const ImageBatcher> images = nullptr;  // makes the batch of `request` as part of the step
  AugmentKey key = {};
  at::Tensor request = {};         // undefined without `images`
  std::vector<Shard> shards = {};  // those of this rank that have samples, in their order; empty without trainer.shards

  // Returns how many samples are computed at once, at most: those of the batch, or of the first shard.
  int64_t size() const;

  // Returns them, after making them if need be.
  Batch made() const;

  // Returns what the step reads, with names: the tensors of the batch and of the shards, or the request.
  std::vector<std::pair<std::string, at::Tensor>> tensors() const;

  // Replaces the batch's tensors, and those of the shards.
  void replace_tensors(const std::function<at::Tensor(const at::Tensor&)>& by);
};

// Returns how the experiment cuts an epoch of `samples` samples into steps.
StepPlan step_plan(const TrainerConfig& config, int64_t samples);

// Samples that one step does without, for `ddprun replay --without`.
struct LeftOut {
  int64_t step = -1;  // counted from 0 over all epochs; -1: none
  std::vector<int64_t> samples = {};
};

// Endless training batches from `first_step` on, with steps counted over all epochs, for one consumer. `images`, those
// of the training split, make the batches if given; otherwise the dataset's draw() and augment() do. Then
// trainer.mixup and cutmix. Throws as training_order() does; next() throws UserError if a sample is to be left out that
// is not in the step.
class TrainLoader {
 public:
  TrainLoader(std::shared_ptr<const Dataset> dataset, const TrainerConfig& config, uint64_t seed, World world,
              c10::Device device, int64_t first_step, std::shared_ptr<const ImageBatcher> images = nullptr,
              LeftOut left_out = {});

  int64_t steps_per_epoch() const { return plan_.steps_per_epoch(); }
  TrainBatch next() { return *next_unless({}); }

  // Does the same, or returns nothing once `give_up`, asked again and again, returns true while the batch is not ready.
  std::optional<TrainBatch> next_unless(const std::function<bool()>& give_up);

  // Returns how many of the next batches are ready, up to `most`.
  int64_t ready(int64_t most) const { return prefetcher_->ready(most); }

  // Loads no further batch. Returns whether nothing is being loaded any more within `limit`.
  bool stop_within(std::chrono::milliseconds limit) { return prefetcher_->stop_within(limit); }

 private:
  TrainBatch load(int64_t step);
  std::vector<int64_t> samples_of(int64_t step);
  void load_shards(TrainBatch& item, std::span<const int64_t> samples) const;
  Batch load_batch(std::span<const int64_t> samples, Slice part, const AugmentKey& key) const;
  Batch finished(Batch batch, const AugmentKey& key, int64_t step);
  std::shared_ptr<const std::vector<int64_t>> order_of(int64_t epoch);

  std::shared_ptr<const Dataset> dataset_;
  LeftOut left_out_;
  StepPlan plan_;
  uint64_t seed_;
  EpochOrder epochs_;
  World world_;
  c10::Device device_;
  std::shared_ptr<const ImageBatcher> images_;  // null if there are none
  CheckedSplit split_;
  CopyStream copies_;
  Mixing mixing_;
  std::mutex order_mutex_;
  int64_t cached_epoch_ = -1;
  std::shared_ptr<const std::vector<int64_t>> cached_order_;
  std::unique_ptr<Prefetcher<TrainBatch>> prefetcher_;
};

// One pass over a split, or over its first batches: every sample once, in batches that are the same for any world size.
// Ranks take turns, so a sample's prediction does not depend on the number of ranks.
class EvalLoader {
 public:
  EvalLoader(std::shared_ptr<const Dataset> dataset, Split split, int64_t batch, const Limit& limit,
             const TrainerConfig& config, World world, c10::Device device,
             std::shared_ptr<const ImageBatcher> images = nullptr);

  int64_t rounds() const { return rounds_; }  // the number on the busiest rank; the same on all ranks
  bool has_next() const { return !prefetcher_->done(); }
  Batch next() { return *next_unless({}); }

  // Does the same, or returns nothing once `give_up`, asked again and again, returns true while the batch is not ready.
  std::optional<Batch> next_unless(const std::function<bool()>& give_up);

  // Loads no further batch. Returns whether nothing is being loaded any more within `limit`.
  bool stop_within(std::chrono::milliseconds limit) { return prefetcher_->stop_within(limit); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  int64_t rounds_;
  CopyStream copies_;
  std::shared_ptr<const ImageBatcher> images_;  // of the split; null if there are none
  std::unique_ptr<Prefetcher<Batch>> prefetcher_;
};

}  // namespace ddprun
