// SPDX-License-Identifier: MIT
// Which samples each rank trains on, as a pure function of (seed, epoch, step, rank): nothing to save or replay.
#pragma once

#include "base/world.h"
#include "config/experiment.h"

#include <cstdint>
#include <vector>

namespace ddprun {

// Returns into how many micro-batches of at most `micro_batch` samples each of `world` ranks splits its part of
// `global_samples`, set by the largest part; 1 if micro_batch is 0.
int64_t micro_batches_of(int64_t global_samples, int64_t world, int64_t micro_batch);

// Returns 0 .. size-1 shuffled by (seed, epoch): Fisher-Yates over Philox draws, the same on every machine.
std::vector<int64_t> epoch_order(uint64_t seed, int64_t epoch, int64_t size);
std::vector<int64_t> unshuffled_order(int64_t size);  // 0 .. size-1

// The samples that each epoch goes through, in their order: a function of the epoch, the same on all ranks.
class EpochOrder {
 public:
  // Each of 0 .. size-1 once; shuffled anew for each epoch, or in their order.
  EpochOrder(uint64_t seed, int64_t size, bool shuffle) : seed_(seed), size_(size), shuffle_(shuffle) {}

  // Draws as many as there are weights, each sample as often as its share of the sum says, rounded down or up: by
  // systematic resampling (Kitagawa, "Monte Carlo filter and smoother", 1996), whose counts vary less than those of
  // independent draws. With `classes`, one per sample, those of each class come as often as its share says, rounded so.
  // The weights are at least 0, and not all 0.
  EpochOrder(uint64_t seed, std::vector<double> weights, std::vector<int64_t> classes = {});

  std::vector<int64_t> of(int64_t epoch) const;

 private:
  uint64_t seed_;
  int64_t size_;
  bool shuffle_ = true;
  std::vector<double> weights_;  // empty: each sample once
  std::vector<int64_t> classes_;
};

// Returns at most `count` of 0 .. size-1, spread evenly, including the first and the last.
std::vector<int64_t> spread_numbers(int64_t size, int64_t count);

// The steps of one epoch: ceil(samples / global_batch), the last one ragged, or the first `limit` of these. Ranks share
// a step's samples, or its `shards` if there are any.
class StepPlan {
 public:
  StepPlan(int64_t samples, int64_t global_batch, const Limit& limit = {}, int64_t shards = 0);

  int64_t steps_per_epoch() const { return steps_; }
  int64_t shards() const { return shards_; }
  Slice global_slice(int64_t step_in_epoch) const;                   // part of the epoch's order
  Slice shard_slice(Slice whole, int64_t shard) const;               // part of that; may be empty
  Slice rank_slice(Slice whole, int64_t rank, int64_t world) const;  // this rank's part of that; may be empty

  // Returns the fewest samples, at least 1, that one of `world` ranks computes at once in a step, or that all compute
  // `together`; with micro-batches of at most `micro_batch`, 0: none. No step has fewer than the last one. With shards,
  // each is computed alone, on any rank.
  int64_t smallest_part(int64_t step_in_epoch, int64_t world, int64_t micro_batch, bool together) const;

 private:
  int64_t samples_, global_batch_, steps_, shards_;
};

}  // namespace ddprun
