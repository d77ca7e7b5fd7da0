// SPDX-License-Identifier: MIT
// What a rank computes at once in a step, micro-batches or shards, and the buffers that change meanwhile.
#pragma once

#include "comm/shared_buffers.h"
#include "data/loader.h"

#include <ddprun/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace ddprun {

struct BatchPart {
  Batch batch;
  double weight = 1;    // of its mean loss in the mean over ranks, or over the shards, if all of it counts
  int64_t samples = 0;  // samples that count; 0 if the batch is borrowed
  int64_t shard = -1;   // its number in the global batch; -1: it is none
  bool first = true, last = true;
};

// Returns this rank's parts of a step of so many ranks: its shards or, of at most `micro_batch` samples each (0: all of
// them at once), the same number of micro-batches on every rank, set by the largest part, since the exchange belongs to
// each rank's last one. A micro-batch without samples of its own borrows one and adds nothing.
std::vector<BatchPart> parts_of(const TrainBatch& batch, int64_t ranks, int64_t micro_batch);

// Has BatchNorm compute without the other ranks while it lives, if it is given the statistics that all share.
class WithoutOthers {
 public:
  WithoutOthers(Model& model, const std::shared_ptr<BatchStatistics>& shared) : model_(model), shared_(shared) {
    if (shared_) attach_statistics(model_, std::shared_ptr<BatchStatistics>());
  }
  ~WithoutOthers() {
    if (shared_) attach_statistics(model_, shared_);
  }
  WithoutOthers(const WithoutOthers&) = delete;
  WithoutOthers& operator=(const WithoutOthers&) = delete;

 private:
  Model& model_;
  std::shared_ptr<BatchStatistics> shared_;
};

// Restores running statistics if the device finds that the step is skipped.
class BufferGuard {
 public:
  BufferGuard(const std::vector<at::Tensor>& buffers, bool enabled);

  // Restores the buffers; `skipped` is a bool on the device, or undefined.
  void restore_where(const at::Tensor& skipped) const;

 private:
  const std::vector<at::Tensor>& buffers_;
  std::vector<at::Tensor> kept_;
};

// Has each shard begin with the buffers with which the step began. The step ends with those that the first shard
// leaves, on the rank that has it. Does nothing without shards.
class ShardBuffers {
 public:
  ShardBuffers(const std::vector<at::Tensor>& buffers, bool enabled);

  void before_part();
  void after_shard(int64_t number);  // keeps those of a shard that is the rank's own
  void end() const { put(left_.empty() ? kept_ : left_); }

 private:
  void put(const std::vector<at::Tensor>& values) const;

  const std::vector<at::Tensor>& buffers_;
  bool enabled_, changed_ = false;
  std::vector<at::Tensor> kept_, left_;
};

}  // namespace ddprun
